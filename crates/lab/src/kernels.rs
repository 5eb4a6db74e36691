//! The catalogue: which kernels the lab knows, and the package that stands for the newest of each.
//!
//! A name says what matters to an experiment: the scheduler that a version brings (6.1: CFS; 6.12: EEVDF; 7: with
//! sched_ext and its server), and the build. `-rt` is PREEMPT_RT. Plain and `-rt` kernels come from the same
//! configuration with every driver, so these two are compared with each other. `-cloud` leaves drivers out that no
//! virtual machine has: a third of the size to fetch, and the fastest to boot.

use surety_model::source::nearest;

use crate::error::LabError;

/// A kernel of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelName {
    /// Its name in the lab: `6.12-rt`.
    pub name: &'static str,
    /// The release of Debian it is taken from.
    pub suite: &'static str,
    /// The package that depends on the newest of its kind there.
    pub package: &'static str,
    /// What an experiment would choose it for.
    pub about: &'static str,
}

const fn kernel(
    name: &'static str,
    suite: &'static str,
    package: &'static str,
    about: &'static str,
) -> KernelName {
    KernelName { name, suite, package, about }
}

/// Every kernel, in the order of `surety lab list`.
pub const CATALOGUE: &[KernelName] = &[
    kernel("6.1", "bookworm", "linux-image-amd64", "CFS"),
    kernel("6.1-rt", "bookworm", "linux-image-rt-amd64", "CFS, PREEMPT_RT"),
    kernel("6.1-cloud", "bookworm", "linux-image-cloud-amd64", "CFS, few drivers"),
    kernel("6.12", "trixie", "linux-image-amd64", "EEVDF"),
    kernel("6.12-rt", "trixie", "linux-image-rt-amd64", "EEVDF, PREEMPT_RT"),
    kernel("6.12-cloud", "trixie", "linux-image-cloud-amd64", "EEVDF, few drivers"),
    kernel("6.12-bpo", "bookworm-backports", "linux-image-amd64", "EEVDF, as backported to Debian 12"),
    kernel("6.12-bpo-rt", "bookworm-backports", "linux-image-rt-amd64", "the same with PREEMPT_RT"),
    kernel("7", "sid", "linux-image-amd64", "sched_ext and its server"),
    kernel("7-rt", "sid", "linux-image-rt-amd64", "sched_ext, PREEMPT_RT"),
    kernel("7-cloud", "sid", "linux-image-cloud-amd64", "sched_ext, few drivers"),
];

/// The kernel of a name.
///
/// # Errors
/// [`LabError::UnknownKernel`], with the nearest name.
pub fn find(name: &str) -> Result<&'static KernelName, LabError> {
    CATALOGUE.iter().find(|k| k.name == name).ok_or_else(|| {
        let near = nearest_version(name).or_else(|| nearest(name, CATALOGUE.iter().map(|k| k.name)));
        let help = near.map_or_else(
            || "`surety lab list` names those there are".to_owned(),
            |near| format!("did you mean {near}?"),
        );
        LabError::UnknownKernel { name: name.to_owned(), help }
    })
}

/// A name taken apart: the numbers of its version, and the build behind them, `-rt`.
fn parts(name: &str) -> Option<((u32, u32), &str)> {
    let end = name.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(name.len());
    let (version, build) = name.split_at(end);
    let mut numbers = version.split('.').map(str::parse);
    let major = numbers.next()?.ok()?;
    let minor = numbers.next().unwrap_or(Ok(0)).ok()?;
    Some(((major, minor), build))
}

/// The kernel of the same build whose version is nearest by its numbers: 6.13 is 6.12, and not 6.1. Of two that are as near it
/// is the older. `None` for names without a version, and for builds that are in no catalogue.
fn nearest_version(name: &str) -> Option<&'static str> {
    let (wanted, build) = parts(name)?;
    // Any minor version of the same major one is nearer than another major one.
    let place = |(major, minor): (u32, u32)| (u64::from(major) << 32) + u64::from(minor);
    let known = CATALOGUE.iter().filter_map(|kernel| Some((parts(kernel.name)?, kernel.name)));
    let same_build = known.filter(|((_, other), _)| *other == build);
    same_build.min_by_key(|((version, _), _)| place(*version).abs_diff(place(wanted))).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_a_slip_is_mended() {
        for kernel in CATALOGUE {
            assert_eq!(find(kernel.name).unwrap(), kernel);
        }
        let error = find("6.12-rtt").unwrap_err();
        assert_eq!(error.remedy().unwrap(), "did you mean 6.12-rt?");
        for (asked, near) in [
            ("6.13", "6.12"),
            ("6.18-rt", "6.12-rt"),
            ("6.2", "6.1"),
            ("7.2-cloud", "7-cloud"),
            ("5.10", "6.1"),
            ("6.120", "6.12"),
            ("6.12.107", "6.12"),
            ("6.12-clud", "6.12-cloud"),
        ] {
            assert_eq!(
                find(asked).unwrap_err().remedy().unwrap(),
                format!("did you mean {near}?"),
                "{asked}"
            );
        }
        assert!(find("nothing like it").unwrap_err().remedy().unwrap().contains("lab list"));
    }
}
