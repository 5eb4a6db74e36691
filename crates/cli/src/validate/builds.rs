//! Which builds of a kernel its records are of: a kernel's word in the lab stands for its newest version, and this machine is started with
//! others.

use std::collections::{BTreeMap, BTreeSet};

use surety_reproduce::validation::Kept;

use super::host::BOOT;

/// How many of the scenarios that are compared are of each build, the most first: `60 scenarios of 6.18.1, 11 of 6.18.2`; and of how many
/// boots, where that is kept and there are several. Nothing where none is kept.
pub(super) fn in_words<'k>(kernel: &str, kept: impl Iterator<Item = &'k Kept>) -> Option<String> {
    let mut builds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut boots: BTreeSet<&str> = BTreeSet::new();
    for kept in kept.filter(|kept| kept.unfit.is_none()) {
        let build = kept.environment.get("kernel").map_or("a build that is not known", String::as_str);
        *builds.entry(build).or_default() += 1;
        boots.extend(kept.environment.get(BOOT).map(String::as_str));
    }
    let mut counted: Vec<(&str, usize)> = builds.into_iter().collect();
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let (first, count) = counted.first()?;
    let plural = if *count == 1 { "" } else { "s" };
    let mut words = format!("{kernel}: {count} scenario{plural} of {first}");
    for (build, count) in &counted[1..] {
        words += &format!(", {count} of {build}");
    }
    if boots.len() > 1 {
        words += &format!(", in {} boots", boots.len());
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_build_is_counted_and_boots_are_where_there_are_several() {
        let kept = |build: &str, boot: Option<&str>, unfit: Option<&str>| {
            let mut environment = BTreeMap::from([("kernel".to_owned(), build.to_owned())]);
            environment.extend(boot.map(|boot| (BOOT.to_owned(), boot.to_owned())));
            Kept { environment, unfit: unfit.map(str::to_owned), ..Kept::default() }
        };
        let said = |kept: &[Kept]| in_words("host", kept.iter());
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[kept("6.1", None, Some("it was disturbed"))]), None);
        assert_eq!(said(&[kept("6.1", Some("a"), None)]).unwrap(), "host: 1 scenario of 6.1");
        let [one, other, third] =
            [("6.1", "a"), ("6.2", "b"), ("6.2", "c")].map(|(build, boot)| kept(build, Some(boot), None));
        let said = said(&[one, other, third]).unwrap();
        assert_eq!(said, "host: 2 scenarios of 6.2, 1 of 6.1, in 3 boots");
    }
}
