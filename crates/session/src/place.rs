//! [`Place`]: what the words of `--on` mean, and of which machine each model is.
//!
//! A simulation or an analysis stands beside what was measured, so it has to be of the same machine: with `lab:KERNEL` of that
//! guest, with `host` of this machine, with several of them there is one for each. A kernel of the lab says itself what its
//! machine is, in the record of a run.

use surety_lab::store::StoredKernel;
use surety_model::platform::Platform;
use surety_model::source::nearest;

use crate::context::Context;
use crate::failure::Failure;
use crate::guests;

/// Where a workload can run: the words `--on` takes.
#[derive(Debug)]
pub enum Place {
    /// This kernel.
    Host,
    /// The simulator.
    Sim(Machine),
    /// Theory.
    Analysis(Machine),
    /// A kernel of the lab.
    Lab(Box<StoredKernel>),
}

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

impl Place {
    /// The clock of its events, where it has any: recordings are made on CLOCK_MONOTONIC, and a simulation's time begins
    /// at 0 and counts the same.
    pub fn clock(&self) -> Option<&'static str> {
        match self {
            Place::Host | Place::Sim(_) | Place::Lab(_) => Some("mono"),
            Place::Analysis(_) => None,
        }
    }

    /// Whether it is a kernel of the lab: dear to boot, and able to make many runs in one boot.
    pub fn is_lab(&self) -> bool {
        matches!(self, Place::Lab(_))
    }

    /// Whether it is this machine.
    pub fn is_host(&self) -> bool {
        matches!(self, Place::Host)
    }

    /// Whether it computes what others run, on a machine that they have to tell it.
    pub fn is_model(&self) -> bool {
        matches!(self, Place::Sim(_) | Place::Analysis(_))
    }
}

/// How a kernel of the lab is named.
pub const LAB: &str = "lab:";
/// Words of `--on`, for messages.
const PLACES: &[&str] =
    &["host", "sim", "sim:linux-6.18", "sim:linux-6.12", "sim:linux-6.1", "analysis", "lab:KERNEL"];
/// A simulator of a machine with a name.
const SIMULATED: &str = "sim:";

/// The places that words mean, each with what it is called.
///
/// # Errors
/// For a word that is no place, and a kernel that is not here.
pub fn places_of(
    words: &[String],
    host: &Platform,
    context: &dyn Context,
) -> Result<Vec<(String, Place)>, Failure> {
    let kernel = |word: &str| -> Result<Option<StoredKernel>, Failure> {
        let name = word.strip_prefix(LAB);
        name.map(|name| Ok(guests::store(context)?.kernel(name)?)).transpose()
    };
    let neighbours = neighbours(words, host);
    let mut places = Vec::new();
    for word in words {
        if let Some(stored) = kernel(word)? {
            places.push((word.clone(), Place::Lab(Box::new(stored))));
            continue;
        }
        if let Some(name) = word.strip_prefix(SIMULATED)
            && let Some(known) = Platform::named(name, host.cpus)
        {
            let machine = match &neighbours[0].1 {
                Machine::Guest(guest) => Machine::Like { name: name.to_owned(), guest: guest.clone() },
                _ => Machine::Known(Box::new(known)),
            };
            places.push((word.clone(), Place::Sim(machine)));
            continue;
        }
        let model: fn(Machine) -> Place = match word.as_str() {
            "host" => {
                places.push((word.clone(), Place::Host));
                continue;
            }
            "sim" => Place::Sim,
            "analysis" => Place::Analysis,
            _ => return Err(unknown(word)),
        };
        for (neighbour, machine) in &neighbours {
            let label = if neighbours.len() == 1 { word.clone() } else { format!("{word} of {neighbour}") };
            places.push((label, model(machine.clone())));
        }
    }
    Ok(places)
}

/// The machines that are measured, each by its word; this one where none is.
fn neighbours(words: &[String], host: &Platform) -> Vec<(String, Machine)> {
    let mut found: Vec<(String, Machine)> = Vec::new();
    for word in words {
        let machine = match word.strip_prefix(LAB) {
            Some(kernel) => Machine::Guest(kernel.to_owned()),
            None if word == "host" => Machine::Known(Box::new(host.clone())),
            None => continue,
        };
        if !found.iter().any(|(known, _)| known == word) {
            found.push((word.clone(), machine));
        }
    }
    if found.is_empty() {
        found.push(("host".to_owned(), Machine::Known(Box::new(host.clone()))));
    }
    found
}

fn unknown(word: &str) -> Failure {
    let near = nearest(word, PLACES.iter().copied());
    let help = near.map_or_else(|| format!("use {}", PLACES.join(", ")), |n| format!("did you mean {n}?"));
    Failure::request(format!("there is no world `{word}`"), help)
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
