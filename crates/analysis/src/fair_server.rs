//! [`argument`]: why the kernel's fair server does not run ahead of a reservation; [`counted`]: what holds where it has to act.
//!
//! Each CPU has a reservation for the fair class (`dl_server`, 50 ms in each second). It is deferred: it
//! becomes a deadline entity only if by `T - Q` into its period fair threads have not had its Q anyway, and
//! every moment a fair thread runs in the background is deducted (`kernel/sched/deadline.c`,
//! `update_curr_dl_se` and `dl_server_timer`). So it stays in the background as long as deadline and realtime threads
//! leave each CPU at least Q in every window of `T - Q`, and fair threads are ready to use it; when none is
//! ready, it is off.
//!
//! Deadline threads migrate, so what they leave to one CPU is counted three ways, the surest first: all of them take turns on
//! one CPU and still leave it enough; or there is a CPU for each; or they can be spread over the CPUs so that none takes too
//! much of any one, and are assumed to stay so. The last two rest on the kernel's placement, which wakes a thread on a CPU
//! without deadline threads where there is one, and pushes and pulls: an assumption, said as one. Threads are spread the
//! largest first, each to the CPU with the most left (Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math.
//! 17(2), 1969).
//!
//! Beside a realtime thread that does not leave that much the server acts. When its timer fires, at zero laxity, what is left
//! of its budget over what is left of its period is more than its bandwidth, so the kernel begins a new period there and
//! then (`replenish_dl_entity`): Q to run, the deadline T away. Its budget is looked at on the tick, whatever ends others', and when it is used up another
//! period begins, deferred, T - Q from there (`update_curr_dl_se`): what it overran, less than a tick `h`, is not paid back. So it is a
//! reservation (Q + h, T, T) of that CPU that never overruns, and counts as one in the test of EDF. On several CPUs it is bound to its own while reserved
//! threads are not: these wait only where every CPU runs an earlier deadline, as in global EDF with the servers of all CPUs
//! in the set, or stay on a CPU of their own where there is one for each; that no server is late, so that none runs on with an old deadline, follows from what reserved threads leave to
//! each CPU, as above.

use surety_model::platform::{FairServer, Platform, RealtimeDemand};
use surety_units::Nanos;

use crate::edf::ReservedThread;
use crate::supply::Supply;

/// What is assumed where there is a CPU for each reserved thread.
pub const OWN_CPU: &str = "each reserved thread stays on a CPU of its own, as wake-ups and the push and pull of the deadline class \
                           arrange it";

/// What can be said about the fair servers: steps of a proof, and what has to be assumed beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FairServerArgument {
    /// Whether the servers provably or under `assumptions` stay in the background.
    pub holds: bool,
    /// The numbers.
    pub steps: Vec<String>,
    /// What has to hold on the machine.
    pub assumptions: Vec<String>,
}

/// The argument for these reserved threads on this platform. Where its CPUs have unlike servers it holds of each of them, since threads may be
/// on any CPU: the steps are those of all, or of the first that may act.
pub fn argument(threads: &[ReservedThread], platform: &Platform) -> FairServerArgument {
    let mut whole = FairServerArgument { holds: true, ..FairServerArgument::default() };
    for (server, _) in platform.unlike_fair_servers() {
        let found = argument_of(server, threads, platform);
        if !found.holds {
            return found;
        }
        whole.steps.extend(found.steps);
        for assumption in found.assumptions {
            if !whole.assumptions.contains(&assumption) {
                whole.assumptions.push(assumption);
            }
        }
    }
    if whole.steps.is_empty() {
        whole.steps.push("the kernel has no fair server".to_owned());
    }
    whole
}

/// The argument for one of the servers.
fn argument_of(server: FairServer, threads: &[ReservedThread], platform: &Platform) -> FairServerArgument {
    let window = server.period - server.runtime;
    let realtime = match &platform.realtime {
        Some(RealtimeDemand { takes: Some(takes), .. }) => *takes,
        Some(RealtimeDemand { takes: None, .. }) => window,
        None => Nanos::ZERO,
    };
    // Below zero where realtime threads alone keep fair ones waiting.
    let room = window - server.runtime - realtime;
    // One that reclaims may take what others leave, up to the cap.
    let (part, whole) = platform.deadline_cap.ratio();
    let takes = |thread: &ReservedThread| {
        let r = &thread.reservation;
        let supply = |alone| Supply::new(*r, platform.enforcement, alone);
        let alone = threads.len() <= platform.cpus as usize;
        let own =
            if thread.sleeps { supply(alone).at_most_waking(window) } else { supply(false).at_most(window) };
        if r.reclaim { own.max(window.mul_ratio(part, whole) + r.runtime).min(window) } else { own }
    };
    let all: Nanos = threads.iter().map(takes).sum();
    let most = threads.iter().map(takes).max().unwrap_or(Nanos::ZERO);
    let (who, beside) = match &platform.realtime {
        Some(RealtimeDemand { who, takes: Some(takes) }) => {
            ("other realtime thread", format!("; {who} take at most {takes} of it"))
        }
        _ => ("realtime thread", String::new()),
    };
    let mut assumptions = vec![format!("no {who} holds a CPU so long that the fair server has to step in")];
    let shape = format!(
        "the fair server ({} in {}) acts only if fair threads had less than {} after {window}{beside}",
        server.runtime, server.period, server.runtime
    );
    // What has to be left by reserved threads: to the server, and to realtime threads that run before fair ones.
    let needed = window - room;
    let holds = |step: String, assumptions| FairServerArgument {
        holds: true,
        steps: vec![shape.clone(), step],
        assumptions,
    };
    if all <= room {
        let left = window - all;
        let step = format!(
            "all reserved threads together take at most {all} of any {window}: {left} are left on the CPU, {needed} are needed"
        );
        return holds(step, assumptions);
    }
    let cpus = platform.cpus.max(1) as usize;
    if threads.len() <= cpus && most <= room {
        let left = window - most;
        assumptions.push(OWN_CPU.to_owned());
        let step = format!(
            "the largest reservation takes at most {most} of any {window}: {left} are left on its CPU, {needed} are needed"
        );
        return holds(step, assumptions);
    }
    let fullest = spread(threads.iter().map(takes).collect(), cpus);
    if fullest <= room {
        let (threads, left) = (threads.len(), window - fullest);
        assumptions.push(
            "reserved threads stay spread over the CPUs, as wake-ups and the push and pull of the deadline class arrange it: \
             they do not all take turns on one CPU while others are free of them"
                .to_owned(),
        );
        let step = format!(
            "{threads} reserved threads spread over {cpus} CPUs take at most {fullest} of any {window} on the fullest: {left} \
             are left on it, {needed} are needed"
        );
        return holds(step, assumptions);
    }
    let plural = if cpus == 1 { "" } else { "s" };
    let step = if most > room {
        let left = (window - most).max(Nanos::ZERO);
        format!(
            "the largest reservation takes up to {most} of any {window}: {left} are left on its CPU, {needed} are needed"
        )
    } else {
        format!(
            "spread over {cpus} CPU{plural} the reserved threads take up to {fullest} of any {window} on the fullest: at most \
             {room} may be taken, so that {needed} are left"
        )
    };
    FairServerArgument { holds: false, steps: vec![shape, step], assumptions }
}

/// What holds where realtime threads keep fair ones waiting until the servers act: their deadlines are kept, so that they count
/// as reservations.
pub fn counted(
    threads: &[ReservedThread],
    platform: &Platform,
    realtime: &RealtimeDemand,
) -> FairServerArgument {
    let Some(server) = platform.fair_server else { return argument(threads, platform) };
    let who = &realtime.who;
    let unlike: Vec<String> = platform
        .unlike_fair_servers()
        .iter()
        .filter(|(other, _)| *other != server)
        .map(|(other, _)| format!("; that of another CPU {} in {}", other.runtime, other.period))
        .collect();
    let shape = format!(
        "{who} may keep fair threads waiting until the fair server acts: from its zero laxity on it runs {} with a deadline \
         {} away, once in every {}, and is counted as a reservation of each CPU{}",
        server.runtime,
        server.period,
        server.period,
        unlike.concat()
    );
    if threads.iter().any(|thread| thread.reservation.reclaim) {
        let step = "a reservation reclaims bandwidth, which is not analysed beside a fair server that acts";
        return FairServerArgument {
            holds: false,
            steps: vec![shape, step.to_owned()],
            assumptions: Vec::new(),
        };
    }
    if platform.cpus == 1 {
        let step = "the test of EDF covers the deadlines of the server, too".to_owned();
        return FairServerArgument { holds: true, steps: vec![shape, step], assumptions: Vec::new() };
    }
    // Realtime threads run below the servers: only reserved threads can make these late.
    let alone = argument(threads, &Platform { realtime: None, ..platform.clone() });
    let assumptions = alone.assumptions.into_iter().skip(1).collect();
    let step = alone.steps.last().map(|step| format!("each server keeps its deadline: {step}"));
    FairServerArgument {
        holds: alone.holds,
        steps: std::iter::once(shape).chain(step).collect(),
        assumptions,
    }
}

/// What the fullest of the CPUs has to give when these amounts are spread, the largest first to where the least is.
fn spread(mut amounts: Vec<Nanos>, cpus: usize) -> Nanos {
    amounts.sort_unstable();
    let mut given = vec![Nanos::ZERO; cpus];
    for amount in amounts.into_iter().rev() {
        if let Some(least) = given.iter_mut().min() {
            *least = least.saturating_add(amount);
        }
    }
    given.into_iter().max().unwrap_or(Nanos::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::reservation::Reservation;

    fn of(q: i64, t: i64) -> ReservedThread {
        let reservation = Reservation::implicit(Nanos::from_millis(q), Nanos::from_millis(t));
        ReservedThread { reservation, bounded: false, sleeps: false }
    }

    #[test]
    fn room_for_the_server_is_counted_per_cpu() {
        for (reservations, cpus, holds, assumptions) in [
            (vec![of(26, 40)], 1, true, 1),
            (vec![of(26, 40), of(4, 20)], 1, true, 1),
            (vec![of(26, 40), of(8, 20)], 1, false, 1),
            (vec![of(32, 40), of(16, 20)], 2, true, 2),
            (vec![of(97, 100)], 2, false, 1),
            // 108 % in all: one CPU cannot, eight can.
            (vec![of(12, 100); 9], 1, false, 1),
            (vec![of(12, 100); 9], 8, true, 2),
            (vec![of(60, 100); 3], 2, false, 1),
            (vec![of(60, 100), of(20, 100), of(20, 100)], 2, true, 2),
        ] {
            let found = argument(&reservations, &Platform::linux_6_18(cpus));
            assert_eq!(
                (found.holds, found.assumptions.len()),
                (holds, assumptions),
                "{reservations:?}: {found:?}"
            );
        }
        // What is refused is more than what may be taken, in the sentence itself.
        let refused = argument(&[of(60, 100); 3], &Platform::linux_6_18(2));
        assert!(refused.steps[1].contains("at most 900.0 ms may be taken"), "{refused:?}");
        let none = Platform { fair_server: None, ..Platform::linux_6_18(1) };
        assert!(argument(&[of(97, 100)], &none).holds);
    }
}
