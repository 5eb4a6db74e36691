//! The order of classes: realtime above deadline, so that a daemon with little work is not in the way of reserved threads that wait for it.
//!
//! Told at OSPM 2023 (T. Cucinotta and others, of realtime graphs with functions on an FPGA): the order of the two classes was swapped. No
//! numbers were published. Here a thread of 2 ms hands over to a second one through a daemon of the class FIFO that takes 200 us, beside a
//! reservation of 10 ms in 30 ms. Each of the two has 2.2 ms within 4 ms of its wake-up, so a daemon that goes first leaves 8.2 ms to the whole.

use surety_model::platform::Platform;
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::by_rule::{Change, Figure, Setting, sheet};
use crate::{Bench, COMMON, Experiment, Request, Sheet};

const WORKLOAD: &str = "\
[[task]]
name = 'first'
period = '20ms'
phases = [{ run = '2ms' }, { signal = 'asks' }]
reservation = { runtime = '2200us', deadline = '4ms', period = '20ms' }
[[task]]
name = 'daemon'
period = '20ms'
phases = [{ wait = 'asks' }, { run = '200us' }, { signal = 'done' }]
policy = 'fifo:50'
[[task]]
name = 'second'
period = '20ms'
phases = [{ wait = 'done' }, { run = '2ms' }]
reservation = { runtime = '2200us', deadline = '4ms', period = '16ms' }
promise = ['response <= 8200us']
[[task]]
name = 'other'
work = 'forever'
reservation = { runtime = '10ms', period = '30ms' }
";

fn swapped(platform: Platform) -> Platform {
    let of = |word: &str| platform.schedulers.iter().position(|scheduler| scheduler == word);
    let mut schedulers = platform.schedulers.clone();
    if let (Some(deadline), Some(realtime)) = (of("deadline"), of("realtime")) {
        schedulers.swap(deadline, realtime);
    }
    Platform { schedulers, ..platform }
}

fn settings() -> Vec<Setting> {
    let setting = |name: &str, machine: Change, missed: Option<f64>| Setting {
        name: name.to_owned(),
        machine,
        workload: WORKLOAD.to_owned(),
        figures: vec![("second", Figure::Missed, missed), ("daemon", Figure::Gap, None)],
    };
    vec![setting("deadline > realtime", None, None), setting("realtime > deadline", Some(swapped), Some(0.0))]
}

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "class-order",
    title: "reserved threads that wait for a realtime daemon, with either class above the other",
    source: "realtime graphs on an FPGA, OSPM 2023; no numbers published",
    worlds: &["sim:linux-6.18", "host"],
    duration: Nanos::from_secs(20),
    lab_shift: 2,
    is_traced: true,
    reproduce,
    ..COMMON
};

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let notes = vec![
        "missed: the second thread ends later than 8.2 ms after the first was released".to_owned(),
        "kernels have the order deadline > realtime; the other one is simulated".to_owned(),
    ];
    sheet(bench, request, &settings(), notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::by_rule::simulated;

    #[test]
    fn nothing_is_late_behind_a_daemon_that_goes_first() {
        let found = simulated(&settings(), 20);
        let value = |index: usize| *found[index].2.as_ref().unwrap();
        assert!(value(0) > 20.0, "{found:?}");
        assert_eq!(found[2].1, Some(0.0));
        assert!(value(2) == 0.0 && value(3) < value(1), "{found:?}");
    }
}
