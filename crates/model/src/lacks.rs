//! What a workload or its machine asks for that the kernels of a fair class do not have ([`Lacks`]): refused, with what to change.

use crate::platform::Platform;
use crate::platform::features::{FairVersion, Lacks};
use crate::workload::{ActivityKind, Stream, Task, Workload};

impl Workload {
    /// What a kernel with the fair class of the platform lacks of it and of the platform: who asks for it, why it is refused and what to
    /// change.
    pub fn lacking_on(&self, platform: &Platform) -> Vec<(String, String)> {
        platform.fair_version().map_or_else(Vec::new, |version| lacking(self, platform, version))
    }
}

impl Platform {
    /// Why its kernel gives nobody a reservation, and what to change; `None`: it does.
    pub fn without_reservations(&self) -> Option<String> {
        let version = self.fair_version().filter(|version| version.lacks.contains(&Lacks::Reservations))?;
        let kernels = version.kernels;
        Some(format!(
            "a kernel with the fair class of {kernels} has no SCHED_DEADLINE: name another fair class in `class-order`"
        ))
    }
}

fn lacking(workload: &Workload, platform: &Platform, version: &FairVersion) -> Vec<(String, String)> {
    let kernels = format!("a kernel with the fair class of {}", version.kernels);
    let of_platform = |asks: bool| asks.then(|| "platform".to_owned());
    let mut found = Vec::new();
    for lacks in version.lacks {
        let (object, what, remedy) = match lacks {
            Lacks::Groups if workload.groups.is_empty() => {
                (of_platform(platform.autogroup), "autogroup", "say `autogroup=off`")
            }
            Lacks::Groups => (
                Some(format!("group.{}", workload.groups[0].name)),
                "control groups of threads",
                "leave it out",
            ),
            Lacks::LatencyNice => (workload.latency_nice(), "latency nice", "leave it out"),
            Lacks::FairServer => {
                if platform.ext_server.is_some() {
                    (of_platform(true), "ext server", "say `ext-server=off`")
                } else {
                    (of_platform(platform.fair_server.is_some()), "fair server", "say `fair-server=off`")
                }
            }
            Lacks::RealtimeLimit => {
                (of_platform(platform.realtime_limit.is_some()), "realtime throttling", "say `rt-limit=off`")
            }
            Lacks::Reservations => (first_reserved(workload), "SCHED_DEADLINE", "leave `reservation` out"),
        };
        let why = format!("{kernels} has no {what}: {remedy}, or name another fair class in `class-order`");
        found.extend(object.map(|object| (object, why)));
    }
    found
}

/// The first activity, by its path, with a reservation, its own or that of a step.
fn first_reserved(workload: &Workload) -> Option<String> {
    let is_reserved = |task: &&Task| task.schedules().any(|of| of.reservation.is_some());
    let tasks = workload.tasks.iter().filter(is_reserved);
    let irqs = workload.irqs.iter().filter(|irq| irq.reservation.is_some());
    let streams = workload.streams.iter().filter(|stream| Stream::is_reserved(stream));
    let mut found = (tasks.map(|task| ActivityKind::Task.path(&task.name)))
        .chain(irqs.map(|irq| ActivityKind::Irq.path(&irq.name)))
        .chain(streams.map(|stream| ActivityKind::Stream.path(&stream.name)));
    found.next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::toml;

    #[test]
    fn what_a_version_lacks_is_refused_by_name() {
        const ALL: FairVersion = FairVersion {
            kernels: "1.0",
            is_cfs: false,
            is_validated: false,
            held_on: &[],
            scales_to: 8,
            lacks: &[
                Lacks::Groups,
                Lacks::LatencyNice,
                Lacks::FairServer,
                Lacks::RealtimeLimit,
                Lacks::Reservations,
            ],
            features: &[],
        };
        let task = "format = 1\n[[task]]\nname = 't'\nperiod = '10ms'\nwork = '1ms'\n";
        let group = "[[group]]\nname = 'g'\n";
        let cases = [
            (
                format!("{task}group = 'g'\n{group}"),
                false,
                "group.g",
                "no control groups of threads: leave it out",
            ),
            (format!("{task}latency_nice = 3\n"), false, "task.t", "no latency nice"),
            (
                format!("{task}reservation = {{ runtime = '2ms', period = '10ms' }}\n"),
                false,
                "task.t",
                "no SCHED_DEADLINE: leave `reservation` out",
            ),
            (
                format!(
                    "{task}phases = [{{ run = '1ms' }}, {{ policy = 'deadline', reservation = {{ runtime = '2ms', period = '10ms' }} }}]\n"
                )
                .replace("work = '1ms'\n", ""),
                false,
                "task.t",
                "no SCHED_DEADLINE: leave `reservation` out",
            ),
            (task.to_owned(), true, "platform", "no autogroup: say `autogroup=off`"),
        ];
        for (text, autogroup, object, why) in cases {
            let workload = toml::read("test", &text).unwrap();
            let platform = Platform { autogroup, ..Platform::linux_2_6_23(1) };
            let found = lacking(&workload, &platform, &ALL);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].0 == object && found[0].1.contains(why), "{found:?}");
            assert!(lacking(&workload, &platform, &FairVersion { lacks: &[], ..ALL }).is_empty());
        }
    }
    /// 2.6.23 has what its profile says, and neither a fair server nor realtime throttling when it is given one.
    #[test]
    fn a_platform_has_nothing_that_its_kernel_lacks() {
        let workload = Workload::default();
        let lacks = |changes: &str| {
            let changes: crate::platform::PlatformChanges = changes.parse().unwrap();
            let found = workload.lacking_on(&changes.on(&Platform::linux_2_6_23(1)).unwrap());
            found.into_iter().map(|(object, why)| format!("{object}: {why}")).collect::<Vec<String>>()
        };
        for (changes, why) in [
            (
                "fair-server=50ms/1s",
                "platform: a kernel with the fair class of 2.6.23 has no fair server: say `fair-server=off`",
            ),
            (
                "rt-limit=950ms/1s",
                "platform: a kernel with the fair class of 2.6.23 has no realtime throttling: say `rt-limit=off`",
            ),
        ] {
            let found = lacks(changes);
            assert!(found.len() == 1 && found[0].starts_with(why), "{found:?}");
        }
        assert_eq!(lacks("fair-server=off,rt-limit=off"), [""; 0]);
        assert!(Platform::linux_2_6_23(1).without_reservations().unwrap().contains("no SCHED_DEADLINE"));
        assert_eq!(Platform::linux_6_1(1).without_reservations(), None);
    }
}
