//! What a workload or its machine asks for that the kernels of a fair class do not have ([`Lacks`]): refused, with what to change.

use surety_model::platform::Platform;
use surety_model::platform::features::{FairVersion, Lacks};
use surety_model::workload::{ActivityKind, Stream, Task, Workload};

/// What of it a version lacks: who asks for it, why it is refused and what to change.
pub(super) fn lacking(
    workload: &Workload,
    platform: &Platform,
    version: &FairVersion,
) -> Vec<(String, String)> {
    let kernels = format!("a kernel with the fair class of {}", version.kernels);
    let mut found = Vec::new();
    for lacks in version.lacks {
        let (object, what, remedy) = match lacks {
            Lacks::Groups if workload.groups.is_empty() => {
                let session = platform.autogroup.then(|| "platform".to_owned());
                (session, "autogroup", "say `autogroup=off`")
            }
            Lacks::Groups => (
                Some(format!("group.{}", workload.groups[0].name)),
                "control groups of threads",
                "leave it out",
            ),
            Lacks::LatencyNice => (workload.latency_nice(), "latency nice", "leave it out"),
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
    use surety_model::formats::toml;

    #[test]
    fn what_a_version_lacks_is_refused_by_name() {
        const ALL: FairVersion = FairVersion {
            scheduler: "none",
            kernels: "1.0",
            is_validated: false,
            scales_to: 8,
            lacks: &[Lacks::Groups, Lacks::LatencyNice, Lacks::Reservations],
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
            let platform = Platform { autogroup, ..Platform::linux_6_1(1) };
            let found = lacking(&workload, &platform, &ALL);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].0 == object && found[0].1.contains(why), "{found:?}");
            assert!(lacking(&workload, &platform, &FairVersion { lacks: &[], ..ALL }).is_empty());
        }
    }
}
