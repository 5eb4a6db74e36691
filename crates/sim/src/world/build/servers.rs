//! Whether constant-bandwidth servers of `edf` fit on the CPUs that they may use. They are played all the same, as task sets of PARTSim ask for
//! them; no kernel is asked for one.

use surety_units::bandwidth::KERNEL_BANDWIDTH_SHIFT;
use surety_units::{CpuId, CpuSet};

use super::Stage;
use crate::cpu::hardware::Scheduling;

/// One CPU in the kernel's units of bandwidth.
const WHOLE: u64 = 1 << KERNEL_BANDWIDTH_SHIFT;

/// The CPUs of a run for which most more is asked than they have: the bandwidth of servers that may use no others, in words. `None`: no servers
/// ask for too much.
pub(in crate::world) fn too_much(stage: &Stage, cpus: CpuSet) -> Option<String> {
    let ids: Vec<CpuId> = cpus.iter().collect();
    let all = CpuSet::first(u32::try_from(ids.len()).unwrap_or(u32::MAX));
    let servers: Vec<(CpuSet, u64)> = stage
        .members
        .iter()
        .filter_map(|member| match member.scheduling {
            Scheduling::Reserved(place, reservation) if place.word() == "edf" => {
                Some((member.allowed.unwrap_or(all), reservation.bandwidth().to_kernel()))
            }
            _ => None,
        })
        .collect();
    let asked = |span: &CpuSet| -> u64 {
        servers.iter().filter(|(own, _)| own.is_subset(span)).map(|(_, bandwidth)| bandwidth).sum()
    };
    let beyond = |span: &CpuSet| asked(span).saturating_sub(WHOLE * span.len() as u64);
    let spans = unions(servers.iter().map(|(span, _)| *span));
    let most = spans.into_iter().max_by_key(beyond).filter(|span| beyond(span) > 0)?;
    let span: CpuSet = most.iter().filter_map(|place| ids.get(place.index()).copied()).collect();
    let percent = asked(&most) as f64 / WHOLE as f64 * 100.0;
    Some(format!(
        "not admitted: those for {} ask for {percent:.1} % of a CPU; budgets come late",
        span.in_words()
    ))
}

/// These sets and the unions of those that share CPUs, as far as there are not too many; that of all is among them.
fn unions(spans: impl Iterator<Item = CpuSet>) -> Vec<CpuSet> {
    const MOST: usize = 256;
    let mut found: Vec<CpuSet> = Vec::new();
    let mut all = CpuSet::EMPTY;
    for span in spans.filter(|span| !span.is_empty()) {
        all = all.union(&span);
        if found.contains(&span) {
            continue;
        }
        let joined = found.iter().filter(|other| !other.intersection(&span).is_empty());
        let joined: Vec<CpuSet> = joined.map(|other| other.union(&span)).chain([span]).collect();
        for span in joined {
            if found.len() < MOST && !found.contains(&span) {
                found.push(span);
            }
        }
    }
    found.push(all);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_that_overlap_are_asked_together() {
        let of = |text: &str| text.parse::<CpuSet>().unwrap();
        let found = unions(["0-1", "1-2", "4"].map(of).into_iter());
        assert_eq!(found, ["0-1", "0-2", "1-2", "4", "0-2,4"].map(of));
    }
}
