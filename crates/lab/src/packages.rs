//! [`Packages`]: which package, core and node of the emulator's machine each processor is in.
//!
//! A package is a last-level cache (`l3-cache` of QEMU's processors), and nodes have whole packages. Where nothing is said of what CPUs share
//! they are cores of one package, as they always were.

use surety_model::platform::Topology;

/// Where the processors of a machine are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packages {
    /// CPUs that the kernel starts.
    cpus: u32,
    /// What they share; `None`: nothing is said of it.
    topology: Option<Topology>,
}

impl Packages {
    /// Of a guest with these CPUs.
    pub(crate) fn of(topology: Option<Topology>, cpus: u32) -> Packages {
        Packages { cpus, topology }
    }

    /// CPUs of a package, and of a core.
    fn sizes(&self) -> (u32, u32) {
        self.topology.map_or((self.cpus, 1), |topology| (topology.llc(self.cpus), topology.smt))
    }

    /// Arguments of the emulator for processors that are all started.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let (package, core) = self.sizes();
        let shape = match self.topology {
            None => self.cpus.to_string(),
            Some(_) => {
                let (sockets, cores) = (self.cpus / package, package / core);
                format!("{},sockets={sockets},dies=1,cores={cores},threads={core}", self.cpus)
            }
        };
        vec!["-smp".to_owned(), shape]
    }

    /// `-smp`'s words for as many more processors again, behind those that are started.
    pub(crate) fn twice(&self) -> String {
        let (package, core) = self.sizes();
        let all = self.cpus * 2;
        let (sockets, cores) = match self.topology {
            None => (1, all),
            Some(_) => (all / package, package / core),
        };
        format!("1,maxcpus={all},sockets={sockets},dies=1,cores={cores},threads={core}")
    }

    /// Where a processor of that machine is, by its number.
    pub(crate) fn place(&self, processor: u32) -> String {
        let (package, core) = match self.topology {
            None => (self.cpus * 2, 1),
            Some(_) => self.sizes(),
        };
        let within = processor % package;
        format!(
            "socket-id={},die-id=0,core-id={},thread-id={}",
            processor / package,
            within / core,
            within % core
        )
    }

    /// Arguments for the nodes: an even part of the memory and of the packages each, of those too that are never started.
    pub(crate) fn memory(&self, mib: u64) -> Vec<String> {
        let Some(topology) = self.topology.filter(|topology| topology.nodes > 1) else { return Vec::new() };
        let (nodes, packages) = (topology.nodes, self.cpus / topology.llc(self.cpus));
        let mut words = Vec::new();
        for node in 0..nodes {
            let size = mib / u64::from(nodes);
            words.extend(["-object".to_owned(), format!("memory-backend-ram,id=memory{node},size={size}M")]);
            words.extend(["-numa".to_owned(), format!("node,nodeid={node},memdev=memory{node}")]);
        }
        for package in 0..packages * 2 {
            let node = package % packages / (packages / nodes);
            words.extend(["-numa".to_owned(), format!("cpu,node-id={node},socket-id={package}")]);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cpus: u32, smt: u32, llc: Option<u32>, nodes: u32) -> Packages {
        Packages::of(Some(Topology { smt, llc, nodes }), cpus)
    }

    #[test]
    fn processors_that_share_nothing_said_are_cores_of_one_package() {
        let plain = Packages::of(None, 4);
        assert_eq!(plain.arguments(), ["-smp", "4"]);
        assert_eq!(plain.twice(), "1,maxcpus=8,sockets=1,dies=1,cores=8,threads=1");
        assert_eq!(plain.place(5), "socket-id=0,die-id=0,core-id=5,thread-id=0");
        assert!(plain.memory(512).is_empty());
    }

    #[test]
    fn a_package_has_a_cache_and_nodes_have_packages() {
        let eight = of(8, 2, Some(4), 1);
        assert_eq!(eight.arguments(), ["-smp", "8,sockets=2,dies=1,cores=2,threads=2"]);
        assert_eq!(eight.twice(), "1,maxcpus=16,sockets=4,dies=1,cores=2,threads=2");
        assert_eq!(eight.place(7), "socket-id=1,die-id=0,core-id=1,thread-id=1");
        assert_eq!(eight.place(8), "socket-id=2,die-id=0,core-id=0,thread-id=0");
        let nodes = of(8, 1, Some(2), 2).memory(512).join(" ");
        assert!(nodes.starts_with(
            "-object memory-backend-ram,id=memory0,size=256M -numa node,nodeid=0,memdev=memory0"
        ));
        let places: Vec<&str> = nodes.split(' ').filter(|word| word.starts_with("cpu,")).collect();
        let started: Vec<String> = [0, 0, 1, 1]
            .iter()
            .zip(0..)
            .map(|(node, package)| format!("cpu,node-id={node},socket-id={package}"))
            .collect();
        assert_eq!(places[..4], started);
        assert_eq!(places.len(), 8);
    }
}
