//! [`Foundation`]: what every bound about reserved threads stands on: the kernel admits them all, every one
//! of them keeps its scheduling deadlines, and the fair servers stay in the background.

use surety_model::plan::Homes;
use surety_model::platform::{Enforcement, FairServer, Platform};
use surety_model::reservation::Reservation;
use surety_model::workload::{Task, Workload};
use surety_units::CpuSet;

use crate::admission::{AdmissionError, RootDomain};
use crate::beside::threads_of;
pub use crate::edf::ReservedThread;
use crate::edf::{Demand, Schedulability, least_pessimistic_of, schedulable};
use crate::fair_server::{FairServerArgument, OWN_CPU, argument, counted};

/// Whether a set of reserved threads gets what was reserved.
#[derive(Clone, Debug)]
pub struct Foundation {
    /// The first refusal of the kernel, with the index of the thread it hits; `None` when all are admitted.
    pub refused: Option<(usize, AdmissionError)>,
    /// The bandwidths in words.
    pub admission_step: String,
    /// Whether scheduling deadlines are kept.
    pub edf: Schedulability,
    /// Whether the fair servers stay away.
    pub fair_server: FairServerArgument,
    enforcement: Enforcement,
    demands: Vec<Demand>,
    /// The names of those whose demands stand before the threads'.
    others: Vec<String>,
    /// Whether each thread is tested with the fair server of a CPU of its own.
    is_apart: bool,
    counts_servers: bool,
    cpus: u32,
    /// The root domains that threads are in, where there are several.
    domains: Vec<Domain>,
}

/// One of several root domains.
#[derive(Clone, Debug)]
pub struct Domain {
    pub cpus: CpuSet,
    /// The places of its threads in the set.
    pub threads: Vec<usize>,
    /// What they stand on.
    pub foundation: Foundation,
}

impl Foundation {
    /// Looks at a set of threads on a platform, beside what others have reserved there; with several root domains each thread
    /// gets the first in which everything holds.
    pub fn of(threads: &[ReservedThread], platform: &Platform) -> Foundation {
        if platform.root_domains.is_empty() {
            return Foundation::in_one(threads, platform);
        }
        let platforms = platform.domains();
        let mut places: Vec<Vec<usize>> = vec![Vec::new(); platforms.len()];
        for (place, thread) in threads.iter().enumerate() {
            let with = |domain: usize| -> Foundation {
                let own = places[domain].iter().map(|at| threads[*at]).chain([*thread]);
                Foundation::in_one(&own.collect::<Vec<_>>(), &platforms[domain].1)
            };
            match (0..platforms.len()).find(|domain| with(*domain).holds()) {
                Some(domain) => places[domain].push(place),
                None => {
                    let why = |(domain, (cpus, _)): (usize, &(CpuSet, Platform))| {
                        format!("{}: {}", cpus.in_words(), with(domain).objection().unwrap_or_default())
                    };
                    let why: Vec<String> = platforms.iter().enumerate().map(why).collect();
                    let whole = Foundation::in_one(threads, platform);
                    let step = format!("thread {place} fits in no root domain: {}", why.join("; "));
                    let edf =
                        Schedulability { holds: false, alone: false, steps: vec![step], ..partitioned() };
                    return Foundation { edf, refused: None, ..whole };
                }
            }
        }
        let domains = places.into_iter().zip(platforms).filter(|(places, _)| !places.is_empty());
        let domains = domains.map(|(places, (cpus, platform))| {
            let own: Vec<ReservedThread> = places.iter().map(|at| threads[*at]).collect();
            Domain { cpus, threads: places, foundation: Foundation::in_one(&own, &platform) }
        });
        Foundation::joined(domains.collect(), Foundation::in_one(threads, platform))
    }

    /// Several root domains in which everything holds as one; `whole` is the set as if there were one, for what does not
    /// depend on it.
    fn joined(domains: Vec<Domain>, whole: Foundation) -> Foundation {
        let said = |steps: &dyn Fn(&Foundation) -> Vec<String>| -> Vec<String> {
            let of = |d: &Domain| {
                let lead = d.cpus.in_words();
                steps(&d.foundation)
                    .into_iter()
                    .map(move |step| format!("{lead}: {step}"))
                    .collect::<Vec<_>>()
            };
            domains.iter().flat_map(of).collect()
        };
        let edf = Schedulability {
            holds: true,
            alone: domains.iter().all(|d| d.foundation.edf.alone),
            steps: said(&|f| {
                f.edf
                    .steps
                    .iter()
                    .map(|step| format!("{} ({}): {step}", f.edf.theorem, f.edf.source))
                    .collect()
            }),
            ..partitioned()
        };
        let mut assumptions: Vec<String> = Vec::new();
        for domain in &domains {
            let threads: Vec<String> = domain.threads.iter().map(usize::to_string).collect();
            assumptions.push(format!(
                "reserved thread(s) {} of the plan, counted from 0, are in the cpuset partition with {} before they are \
                 reserved",
                threads.join(", "),
                domain.cpus.in_words()
            ));
        }
        for domain in &domains {
            for assumption in &domain.foundation.fair_server.assumptions {
                if !assumptions.contains(assumption) {
                    assumptions.push(assumption.clone());
                }
            }
        }
        let fair_server =
            FairServerArgument { holds: true, steps: said(&|f| f.fair_server.steps.clone()), assumptions };
        let admission_step = said(&|f| vec![f.admission_step.clone()]).join("; ");
        Foundation { refused: None, admission_step, edf, fair_server, domains, ..whole }
    }

    /// A set in one root domain.
    fn in_one(threads: &[ReservedThread], platform: &Platform) -> Foundation {
        let mut domain = RootDomain::of(platform);
        let refused = threads
            .iter()
            .enumerate()
            .find_map(|(index, thread)| domain.admit(&thread.reservation).err().map(|error| (index, error)));
        let (others, mut all): (Vec<String>, Vec<ReservedThread>) = threads_of(platform).into_iter().unzip();
        all.extend_from_slice(threads);
        let mut demands: Vec<Demand> =
            all.iter().map(|t| Demand::of(&t.reservation, platform, t.bounded, t.sleeps)).collect();
        let mut fair_server = argument(&all, platform);
        let acts = platform.fair_server.filter(|_| !fair_server.holds);
        let mut apart = None;
        if let (Some(_), Some(realtime)) = (acts, &platform.realtime) {
            fair_server = counted(&all, platform, realtime);
            let unlike: Vec<(Demand, u32)> = platform
                .unlike_fair_servers()
                .into_iter()
                .map(|(server, cpus)| (server_demand(server, platform), cpus))
                .collect();
            apart = on_own_cpus(&demands, &unlike, platform.cpus);
            if apart.is_some() && !fair_server.assumptions.iter().any(|a| a == OWN_CPU) {
                fair_server.assumptions.push(OWN_CPU.to_owned());
            }
            let each = (0..platform.cpus as usize).filter_map(|place| platform.fair_server_at(place));
            demands.extend(each.map(|server| server_demand(server, platform)));
        }
        Foundation {
            admission_step: admission_step(&domain, &others),
            is_apart: apart.is_some(),
            counts_servers: demands.len() > all.len(),
            edf: match (&refused, apart) {
                // No test has to be asked about what the kernel refuses.
                (Some(_), _) => Schedulability { holds: false, alone: false, ..partitioned() },
                _ if platform.above_reservations().is_some() => below(platform),
                _ if platform.has_late_timers() => on_ticks(),
                (None, Some(apart)) => apart,
                (None, None) => schedulable(&demands, platform.cpus),
            },
            fair_server,
            enforcement: platform.enforcement,
            refused,
            demands,
            others,
            cpus: platform.cpus,
            domains: Vec::new(),
        }
    }

    /// Whether the kernel admits a set in one root domain and its fair servers stay in the background; EDF is not looked at.
    pub fn stays_in_background(threads: &[ReservedThread], platform: &Platform) -> bool {
        let mut domain = RootDomain::of(platform);
        let others = threads_of(platform).into_iter().map(|(_, thread)| thread);
        let all: Vec<ReservedThread> = others.chain(threads.iter().copied()).collect();
        threads.iter().all(|thread| domain.admit(&thread.reservation).is_ok())
            && argument(&all, platform).holds
    }

    /// Names in the order of [`Foundation::demands`]: others that have reservations, the threads of the set, and the fair
    /// server of each CPU where it is counted.
    pub fn names(&self, threads: &[String]) -> Vec<String> {
        let mut names: Vec<String> = self.others.iter().chain(threads).cloned().collect();
        let servers = self.demands.len().saturating_sub(names.len());
        names.extend((0..servers).map(|cpu| format!("fair server of CPU {cpu}")));
        names
    }

    /// The root domains that threads are in, where the platform has several; empty: one has all.
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// The CPUs of the root domain that a thread of the set is in, where the platform has several.
    pub fn home_of(&self, thread: usize) -> Option<CpuSet> {
        self.domains.iter().find(|domain| domain.threads.contains(&thread)).map(|domain| domain.cpus)
    }

    /// The same, its test of EDF named after the least pessimistic one that holds. Takes longer: for proofs.
    pub fn for_proof(self) -> Foundation {
        if self.is_apart {
            return self;
        }
        if self.domains.is_empty() {
            return Foundation { edf: least_pessimistic_of(&self.demands, self.cpus), ..self };
        }
        let proven = |d: &Domain| Domain { foundation: d.foundation.clone().for_proof(), ..d.clone() };
        Foundation::joined(self.domains.iter().map(proven).collect(), self)
    }

    /// Whether the fair servers are taken to act, and count as reservations.
    pub fn counts_servers(&self) -> bool {
        self.counts_servers
    }

    /// Whether each thread was tested with the fair server of a CPU of its own, and not all on all CPUs.
    pub fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// What every reserved thread may ask of the CPUs, in the order of [`Foundation::names`].
    pub fn demands(&self) -> &[Demand] {
        &self.demands
    }

    /// Whether everything holds.
    pub fn holds(&self) -> bool {
        self.refused.is_none() && self.edf.holds && self.fair_server.holds
    }

    /// What does not hold, in words.
    pub fn objection(&self) -> Option<String> {
        if let Some((_, error)) = &self.refused {
            return Some(error.to_string());
        }
        let last = |steps: &[String]| steps.last().cloned().unwrap_or_default();
        if !self.edf.holds {
            return Some(format!(
                "{} does not show that deadlines are kept: {}",
                self.edf.theorem,
                last(&self.edf.steps)
            ));
        }
        (!self.fair_server.holds)
            .then(|| format!("the kernel's fair server may run ahead: {}", last(&self.fair_server.steps)))
    }

    /// The steps of a proof, in order.
    pub fn steps(&self) -> Vec<String> {
        let mut steps = vec![self.admission_step.clone()];
        steps.extend(self.edf.steps.iter().map(|s| format!("{}: {s}", self.edf.theorem)));
        steps.extend(self.fair_server.steps.iter().cloned());
        if let Enforcement::Tick(tick) = self.enforcement {
            steps.push(format!(
                "budgets are looked at on the tick ({tick}): a thread may run over by less than that and pays it back, so \
                 by the end of each period the sums are the same"
            ));
        }
        steps
    }

    /// What has to hold on the machine.
    pub fn assumptions(&self) -> Vec<String> {
        let mut assumptions = self.fair_server.assumptions.clone();
        assumptions
            .push("times count from the kernel's waking of the thread; a late timer comes on top".to_owned());
        assumptions.push("every CPU runs at the speed the work was measured at".to_owned());
        assumptions
    }
}

/// Where the reserved threads of a workload go on a platform of several root domains: each into the first in which everything
/// holds, in the order of the workload. Empty with one domain, or where they do not fit.
pub fn homes(workload: &Workload, platform: &Platform) -> Homes {
    let threads = reserved_threads(workload, platform.cpus);
    let only: Vec<ReservedThread> = threads.iter().map(|(_, thread)| *thread).collect();
    let foundation = Foundation::of(&only, platform);
    let mut homes = Homes::new();
    for (place, (name, _)) in threads.into_iter().enumerate() {
        if let Some(cpus) = foundation.home_of(place) {
            homes.entry(name).or_default().push(cpus);
        }
    }
    homes
}

/// The same for a run on these CPUs: all of them there, where the CPUs are a root domain of a platform that has several.
pub fn homes_on(workload: &Workload, platform: &Platform, cpus: Option<CpuSet>) -> Homes {
    let is_domain = |cpus: &CpuSet| platform.root_domains.len() > 1 && platform.root_domains.contains(cpus);
    let Some(cpus) = cpus.filter(is_domain) else { return homes(workload, platform) };
    let mut homes = Homes::new();
    for (name, _) in reserved_threads(workload, platform.cpus) {
        homes.entry(name).or_default().push(cpus);
    }
    homes
}

/// The reserved threads of a workload on a machine of `cpus` CPUs, by their activities.
fn reserved_threads(workload: &Workload, cpus: u32) -> Vec<(String, ReservedThread)> {
    let named = |name: &String, reservation: Option<Reservation>, count: u32| {
        let of = |reservation| ReservedThread { reservation, bounded: false, sleeps: true };
        let thread = reservation.map(|reservation| (name.clone(), of(reservation)));
        vec![thread; count as usize].into_iter().flatten()
    };
    let tasks = workload.tasks.iter();
    let tasks = tasks.flat_map(|task| named(&task.name, task.reservation, task.instances.on(cpus)));
    let irqs = workload.irqs.iter().flat_map(|irq| named(&irq.name, irq.reservation, 1));
    tasks.chain(irqs).collect()
}

/// Threads kept apart by root domains, before anything is said about them.
fn partitioned() -> Schedulability {
    Schedulability {
        holds: true,
        theorem: "EDF in each root domain, threads put by first fit",
        source: "Baruah and Fisher, IEEE Trans. Computers 55(7), 2006; the steps name the test of each domain",
        steps: Vec::new(),
        alone: false,
    }
}

/// Reservations that another scheduler stands above.
fn below(platform: &Platform) -> Schedulability {
    let step = format!(
        "the platform has `{}` above reservations or in the place of the kernel's, which is not analysed",
        platform.above_reservations().unwrap_or_default()
    );
    Schedulability { holds: false, theorem: "EDF", steps: vec![step], ..partitioned() }
}

/// Reservations whose sleeps end, and whose budgets are filled, on ticks.
fn on_ticks() -> Schedulability {
    let step = "the platform has no high resolution timers (`hrtimers=off`), and by how much sleeps end and budgets are filled late is not analysed";
    Schedulability { holds: false, theorem: "EDF", steps: vec![step.to_owned()], ..partitioned() }
}

/// The fair server of a CPU as a reservation: once it acts it is one, whose thread may sleep at any time. What it overruns it does not
/// pay back.
fn server_demand(server: FairServer, platform: &Platform) -> Demand {
    let runtime = server.runtime + platform.tick;
    Demand::of(&Reservation::implicit(runtime, server.period), platform, true, true)
}

/// Each of some demands with the fair server of a CPU of its own, whichever that is, by the tests of one CPU: the tightest of them. `None`
/// where there is no CPU for each, or one does not fit so.
fn on_own_cpus(demands: &[Demand], servers: &[(Demand, u32)], cpus: u32) -> Option<Schedulability> {
    if cpus < 2 || demands.len() > cpus as usize {
        return None;
    }
    let pairs = demands.iter().flat_map(|demand| servers.iter().map(move |(server, _)| (demand, *server)));
    let each: Option<Vec<(&Demand, Demand, Schedulability)>> = pairs
        .map(|(demand, server)| {
            let found = schedulable(&[*demand, server], 1);
            found.holds.then_some((demand, server, found))
        })
        .collect();
    let part = |demand: &Demand| demand.runtime.get() as f64 / demand.deadline.get() as f64;
    let load = |(demand, server, _): &(&Demand, Demand, Schedulability)| (part(demand), part(server));
    let tightest = each?.into_iter().max_by(|a, b| {
        let ((a, own), (b, other)) = (load(a), load(b));
        a.total_cmp(&b).then(own.total_cmp(&other))
    });
    tightest.map(|(demand, _, found)| {
        let lead = format!(
            "a CPU for each reserved thread and its fair server, the fullest with {} in {}: ",
            demand.runtime, demand.period
        );
        let steps = found.steps.iter().map(|step| format!("{lead}{step}")).collect();
        Schedulability { steps, ..found }
    })
}

/// A task with a reservation that takes a lock with inheritance: while it waits, whoever holds the lock runs under its
/// deadline, and no analysis here counts that. `is_reserved` says which tasks have or get a reservation.
pub fn lent_reservation(workload: &Workload, is_reserved: impl Fn(&Task) -> bool) -> Option<String> {
    let lends = |task: &&Task| is_reserved(task) && workload.lending_lock_of(task).is_some();
    let task = workload.tasks.iter().find(lends)?;
    let lock = workload.lending_lock_of(task)?;
    Some(format!(
        "{} lends its reservation through the lock `{lock}` to its holder, which no proof here covers; give the lock \
         no protocol, or the task a realtime policy",
        task.name
    ))
}

/// What is booked of what may be, by whom.
fn admission_step(domain: &RootDomain, others: &[String]) -> String {
    let by = if others.is_empty() { String::new() } else { format!(", by {} too", others.join(", ")) };
    if domain.cap == RootDomain::UNLIMITED {
        return format!(
            "admission: {} kernel units (2^-20 CPU) booked{by}: the kernel sets no limit (sched_rt_runtime_us is -1)",
            domain.admitted
        );
    }
    let deducted =
        if domain.servers > 0 { format!(", {} deducted", domain.servers_in_words) } else { String::new() };
    format!(
        "admission: {} of {} kernel units (2^-20 CPU) booked{by}{deducted}",
        domain.admitted,
        domain.available()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::platform::{OtherReservation, RealtimeDemand};
    use surety_units::Nanos;

    #[test]
    fn root_domains_are_filled_one_after_the_other() {
        let of = |q, t| ReservedThread {
            reservation: Reservation::implicit(Nanos::from_millis(q), Nanos::from_millis(t)),
            bounded: true,
            sleeps: false,
        };
        let threads = [of(50, 100), of(60, 100), of(20, 100), of(25, 100)];
        // On two CPUs at once the fair servers would act; on one each, both pairs fit.
        let apart = Platform::linux_6_18(1).partitioned(&[1, 1]);
        assert!(!Foundation::of(&threads, &Platform::linux_6_18(2)).holds());
        let found = Foundation::of(&threads, &apart);
        assert!(found.holds() && !found.edf.alone, "{found:?}");
        let places: Vec<&[usize]> = found.domains().iter().map(|d| d.threads.as_slice()).collect();
        assert_eq!(places, [&[0, 2][..], &[1, 3][..]]);
        let proof = found.for_proof();
        let steps = proof.steps().join("\n");
        assert!(
            steps.contains("CPU 0: utilisation bound") && steps.contains("CPU 1: utilisation bound"),
            "{steps}"
        );
        assert!(proof.assumptions()[0].contains("partition with CPU 0"), "{:?}", proof.assumptions());
        assert_eq!(
            (0..5)
                .map(|at| proof.home_of(at))
                .map(|home| home.map_or(9, |cpus| cpus.lowest().map_or(9, |c| c.0)))
                .collect::<Vec<_>>(),
            [0, 1, 0, 1, 9]
        );
        // One more than fits says why on each.
        let found = Foundation::of(&[&threads[..], &[of(30, 100)]].concat(), &apart);
        let objection = found.objection().unwrap_or_default();
        assert!(objection.contains("CPU 0:") && objection.contains("CPU 1:"), "{objection}");
        // A CPU each in both.
        assert!(Foundation::of(&threads[..2], &apart).edf.alone);
    }

    #[test]
    fn what_others_have_reserved_counts_like_the_rest() {
        let of = |q, t| Reservation::implicit(Nanos::from_millis(q), Nanos::from_millis(t));
        let thread = |q, t| ReservedThread { reservation: of(q, t), bounded: true, sleeps: false };
        let beside = |q, t| {
            let other = OtherReservation::unknown("other".to_owned(), of(q, t));
            Platform { others: vec![other], ..Platform::linux_6_18(1) }
        };
        for (threads, platform, word) in [
            (vec![thread(4, 10)], beside(2, 10), ""),
            // Admission, EDF with deadlines before the periods' ends, and room for the fair server.
            (vec![thread(4, 10)], beside(8, 10), "80.00 % admitted"),
            (vec![thread(4, 10)], beside(45, 100), "does not show"),
            (vec![thread(30, 100)], beside(520, 1000), "fair server"),
        ] {
            let found = Foundation::of(&threads, &platform);
            let objection = found.objection().unwrap_or_default();
            assert!(
                objection.contains(word) && found.holds() == word.is_empty(),
                "{platform:?}: {objection}"
            );
            assert!(!found.edf.alone && found.names(&["own".to_owned()]) == ["other", "own"]);
            assert!(found.steps()[0].contains("by other too"), "{:?}", found.steps());
        }
        // In a root domain of its own it is in nobody's way.
        let apart = Platform::linux_6_18(1).partitioned(&[1, 1]);
        let home = apart.root_domains[1];
        let other = OtherReservation { root_domain: Some(home), ..beside(8, 10).others.remove(0) };
        let apart = Platform { others: vec![other], ..apart };
        assert!(Foundation::of(&[thread(4, 10)], &apart).holds());
        assert!(!Foundation::of(&[thread(4, 10); 3], &apart).holds());
    }

    #[test]
    fn a_fair_server_that_acts_is_a_reservation_of_its_cpu() {
        let us = Nanos::from_micros;
        let of = |q, t| ReservedThread {
            reservation: Reservation::implicit(us(q), us(t)),
            bounded: true,
            sleeps: false,
        };
        let endless = RealtimeDemand { who: "hog".to_owned(), takes: None };
        let beside = |cpus, takes| Platform {
            realtime: Some(RealtimeDemand { takes, ..endless.clone() }),
            ..Platform::linux_6_18(cpus)
        };
        let two = vec![of(2_800, 16_600), of(21_000, 100_000)];
        for (threads, platform, counted, holds) in [
            (two.clone(), beside(1, None), true, true),
            (two.clone(), beside(2, None), true, true),
            (vec![of(880_000, 1_000_000)], beside(1, None), true, true),
            // 90 % and the server's 5.4 are as much as the CPU has, which one of 12 ms in 13 has not.
            (vec![of(12_000, 13_000), of(2_000, 100_000)], beside(1, None), true, false),
            (vec![of(95_000, 100_000)], beside(2, None), true, false),
            (vec![of(67_000, 100_000); 2], beside(2, None), true, true),
            (vec![of(67_000, 100_000); 3], beside(2, None), true, false),
            // What yields leaves room enough, or not.
            (two.clone(), beside(1, Some(us(300_000))), false, true),
            (two, beside(1, Some(us(900_000))), true, true),
        ] {
            let found = Foundation::of(&threads, &platform);
            assert_eq!(found.holds(), holds, "{threads:?} {platform:?}: {:?}", found.objection());
            let servers = found.demands().len() - threads.len();
            assert_eq!(servers, if counted { platform.cpus as usize } else { 0 }, "{threads:?}");
            let says = |word: &str| found.steps().iter().any(|step| step.contains(word));
            assert_eq!(says("zero laxity"), counted, "{:?}", found.steps());
            assert!(!counted || !found.edf.alone);
        }
        let greedy = ReservedThread {
            reservation: Reservation { reclaim: true, ..of(2_800, 16_600).reservation },
            ..of(2_800, 16_600)
        };
        assert!(!Foundation::of(&[greedy], &beside(1, None)).holds());
    }

    #[test]
    fn each_part_can_object() {
        let of = |q, d, t| ReservedThread {
            reservation: Reservation {
                deadline: Nanos::from_millis(d),
                ..Reservation::implicit(Nanos::from_millis(q), Nanos::from_millis(t))
            },
            bounded: false,
            sleeps: false,
        };
        for (threads, cpus, word) in [
            (vec![of(26, 40, 40)], 2, ""),
            (vec![of(90, 100, 100), of(91, 100, 100)], 2, "EBUSY"),
            (vec![of(2, 4, 20), of(3, 5, 40)], 1, "does not show"),
            (vec![of(89, 100, 100)], 1, ""),
            (vec![of(880, 1000, 1000)], 1, "fair server"),
        ] {
            let foundation = Foundation::of(&threads, &Platform::linux_6_18(cpus));
            let objection = foundation.objection().unwrap_or_default();
            assert!(objection.contains(word), "{threads:?}: {objection}");
            assert_eq!(foundation.holds(), word.is_empty(), "{threads:?}: {objection}");
            assert!(foundation.steps().len() >= 3 && foundation.assumptions().len() >= 2);
        }
    }

    /// What stands above reservations is not analysed: nothing is shown of them, whoever it is.
    #[test]
    fn nothing_is_shown_of_reservations_below_another_scheduler() {
        let order = |words: [&str; 3]| Platform {
            schedulers: words.map(str::to_owned).to_vec(),
            ..Platform::linux_6_18(1)
        };
        for (words, holds) in
            [(["deadline", "realtime", "fair"], true), (["realtime", "deadline", "fair"], false)]
        {
            let reservation = Reservation::implicit(Nanos::from_millis(4), Nanos::from_millis(10));
            let thread = ReservedThread { reservation, bounded: true, sleeps: false };
            let found = Foundation::of(&[thread], &order(words));
            assert_eq!(found.objection().is_none(), holds, "{words:?}");
            assert!(holds || found.objection().is_some_and(|why| why.contains("has `realtime` above")));
        }
    }
}
