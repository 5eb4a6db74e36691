//! [`Machine`]: of which machine each model is.
//!
//! A simulation or an analysis stands beside what was measured, so it has to be of the same machine: with `lab:KERNEL` of that
//! guest, with `host` of this machine, with several of them there is one for each. A kernel of the lab says itself what its
//! machine is, in the record of a run.

use surety_model::platform::Platform;
use surety_model::world::LAB_PREFIX;

use super::host;

/// The machine that a model is of.
#[derive(Clone, Debug, PartialEq)]
pub enum Machine {
    /// One that is known before anything runs.
    Known(Box<Platform>),
    /// That of the guest with this kernel.
    Guest(String),
    /// A kernel with a name, on as many CPUs as the guest with the other kernel has.
    Like {
        /// What [`Platform::named`] knows.
        name: String,
        /// The guest's kernel.
        guest: String,
    },
}

/// What models among some words are of.
#[derive(Clone, Debug)]
pub struct Machines {
    /// Those that are measured, each by its word; this one where none is.
    measured: Vec<(String, Machine)>,
    /// CPUs of this machine.
    pub cpus: u32,
}

impl Machines {
    /// The machines beside which models among these words stand.
    pub fn of(words: &[String], host: &Platform) -> Machines {
        Machines { measured: neighbours(words, host), cpus: host.cpus }
    }

    /// One of a model for each machine that is measured, labelled with the machine where there are several.
    pub fn each(&self, word: &str) -> Vec<(String, Machine)> {
        let label =
            |of: &str| if self.measured.len() == 1 { word.to_owned() } else { format!("{word} of {of}") };
        self.measured.iter().map(|(of, machine)| (label(of), machine.clone())).collect()
    }

    /// A kernel with a name, on as many CPUs as the first machine that is measured.
    pub fn named(&self, name: &str) -> Option<Machine> {
        let known = Platform::named(name, self.cpus)?;
        Some(match &self.measured[0].1 {
            Machine::Guest(guest) => Machine::Like { name: name.to_owned(), guest: guest.clone() },
            _ => Machine::Known(Box::new(known)),
        })
    }
}

/// The machines that are measured, each by its word; this one where none is.
fn neighbours(words: &[String], host: &Platform) -> Vec<(String, Machine)> {
    let mut found: Vec<(String, Machine)> = Vec::new();
    for word in words {
        let machine = match word.strip_prefix(LAB_PREFIX) {
            Some(kernel) => Machine::Guest(kernel.to_owned()),
            None if word == host::WORD => Machine::Known(Box::new(host.clone())),
            None => continue,
        };
        if !found.iter().any(|(known, _)| known == word) {
            found.push((word.clone(), machine));
        }
    }
    if found.is_empty() {
        found.push((host::WORD.to_owned(), Machine::Known(Box::new(host.clone()))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machines(words: &[&str]) -> Vec<(String, Machine)> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        neighbours(&words, &Platform::linux_6_18(2))
    }

    #[test]
    fn a_model_is_of_the_machines_beside_it() {
        let host = Machine::Known(Box::new(Platform::linux_6_18(2)));
        let guest = |name: &str| Machine::Guest(name.to_owned());
        let named = |name: &str, machine: &Machine| (name.to_owned(), machine.clone());
        assert_eq!(machines(&["sim"]), [named("host", &host)]);
        assert_eq!(machines(&["sim", "host", "analysis"]), [named("host", &host)]);
        assert_eq!(machines(&["sim", "lab:6.12"]), [named("lab:6.12", &guest("6.12"))]);
        let several = machines(&["lab:6.12", "sim", "lab:7", "host", "lab:6.12"]);
        let expected = [named("lab:6.12", &guest("6.12")), named("lab:7", &guest("7")), named("host", &host)];
        assert_eq!(several, expected);
    }
}
