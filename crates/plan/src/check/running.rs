//! A plan beside the machine that runs now: whether it stands with the CPUs, the deadline servers and the limit of reservations there.

use surety_analysis::foundation::Foundation;
use surety_analysis::overheads;
use surety_model::claim::Claim;
use surety_model::plan::Plan;
use surety_model::platform::Platform;

use super::{CheckError, Finding, reserved_threads};

/// Where more CPUs of its machine are online than bounds of streams count: each may have a request of best effort ahead.
pub(super) fn with_cpus_of(running: &Platform, plan: &Plan) -> Option<Finding> {
    let written = &plan.platform;
    let is_same = (&running.name, running.cpus) == (&written.name, written.cpus);
    if plan.streams.is_empty() || !is_same || running.other_cpus <= written.other_cpus {
        return None;
    }
    let words = format!(
        "{} CPUs are online beside those of the plan now, in the file {}: bounds of streams count them, make the plan anew",
        running.other_cpus, written.other_cpus
    );
    Some(Finding::told("CPUs of the running machine", false, words))
}

/// Whether a plan is of the running machine, or of it as `--platform` changed it.
pub(super) fn is_of(running: &Platform, plan: &Plan) -> bool {
    let rest = plan.platform.name.strip_prefix(&running.name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" with "))
}

/// Whether the plan stands with what the running kernel lets reservations have (`sched_rt_runtime_us`); `None`: it is that of the file.
/// What else the machine of the plan has is left as it is there.
///
/// Errors: as [`super::check`].
pub fn with_limit_of(
    running: &Platform,
    plan: &Plan,
    claims: &[Claim],
) -> Result<Option<Finding>, CheckError> {
    let written = &plan.platform;
    if running.admitted_per_cpu() == written.admitted_per_cpu() {
        return Ok(None);
    }
    let now = Platform {
        deadline_cap: running.deadline_cap,
        deadline_unlimited: running.deadline_unlimited,
        ..written.clone()
    };
    let foundation = Foundation::of(&reserved_threads(plan, claims)?, &overheads::with_busy(&now));
    let most = |platform: &Platform| match platform.deadline_unlimited {
        true => "not at all".to_owned(),
        false => format!("to {} of each CPU", platform.deadline_cap),
    };
    let words = format!(
        "reservations are limited {} now, {} in the file (sched_rt_runtime_us): {}",
        most(&now),
        most(written),
        foundation.objection().unwrap_or_else(|| "the plan stands".to_owned())
    );
    Ok(Some(Finding::told("limit of the running machine", foundation.holds(), words)))
}

/// Whether the plan stands with the servers that its machine has now; `None`: they are those of the file, or it is another machine.
pub(super) fn with_servers_of(
    running: &Platform,
    plan: &Plan,
    claims: &[Claim],
) -> Result<Option<Finding>, CheckError> {
    let written = &plan.platform;
    let of = |p: &Platform| (p.name.clone(), p.cpus, p.root_domains.clone());
    let now = written.clone().with_servers_of(running);
    if of(running) != of(written) || now == *written {
        return Ok(None);
    }
    let foundation = Foundation::of(&reserved_threads(plan, claims)?, &overheads::with_busy(&now));
    let stands = foundation.holds() && plan.streams.is_empty();
    let why = foundation.objection().unwrap_or_else(|| match stands {
        true => "the plan stands".to_owned(),
        false => "bounds of streams count them, make the plan anew".to_owned(),
    });
    let part = |platform: &Platform| platform.booked_for_servers() as f64 / (1u64 << 20) as f64 * 100.0;
    let words = format!(
        "the machine books {:.2} % of a CPU for its servers now, in the file {:.2} %: {}",
        part(&now),
        part(written),
        why
    );
    Ok(Some(Finding::told("servers of the running machine", stands, words)))
}
