//! Results of programs that tell one total time for each run, and the names of what was run.

use std::collections::{BTreeMap, BTreeSet};

use crate::assemble::{Assembly, COLUMNS_MAX};

/// Names of activities: the second of the same name is `a (2)`.
#[derive(Default)]
pub(crate) struct Names {
    times: BTreeMap<String, usize>,
    given: BTreeSet<String>,
}

impl Names {
    pub(crate) fn unique(&mut self, told: &str) -> String {
        let times = self.times.entry(told.to_owned()).or_default();
        loop {
            *times += 1;
            let name = if *times == 1 { told.to_owned() } else { format!("{told} ({times})") };
            if self.given.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// Named numbers with their units.
pub(crate) type Figures = Vec<(&'static str, f64, &'static str)>;

/// Runs of one program that tells a total time for each.
#[derive(Default)]
pub(crate) struct Totals {
    /// Of each configuration the times in nanoseconds, and what its first run told besides.
    configurations: Vec<(String, Vec<u64>, Figures)>,
}

impl Totals {
    pub(crate) fn run(&mut self, configuration: &str, time: u64, besides: Figures) -> Result<(), String> {
        let known = self.configurations.iter().position(|(name, _, _)| name == configuration);
        match known {
            Some(at) => self.configurations[at].1.push(time),
            None if self.configurations.len() == COLUMNS_MAX => {
                return Err(format!("more than {COLUMNS_MAX} configurations"));
            }
            None => self.configurations.push((configuration.to_owned(), vec![time], besides)),
        }
        Ok(())
    }

    /// An activity of that name for each configuration. One run is a figure; several are responses in their order.
    pub(crate) fn into_activities(self, name: &str, assembly: &mut Assembly) {
        let mut names = Names::default();
        for (configuration, times, besides) in self.configurations {
            let name = names.unique(name);
            if !configuration.is_empty() {
                assembly.say(&name, configuration);
            }
            if let [time] = times[..] {
                assembly.figure(&name, "total time", time as f64, "ns");
                for (figure, value, unit) in besides {
                    assembly.figure(&name, figure, value, unit);
                }
            } else {
                assembly.responses(&name, &times);
            }
        }
    }
}
