//! Rights of a workload's commands on this machine: what is asked for held against what this process may give, and said in words.

use std::collections::BTreeMap;

use surety_kernel::command::{Held, Rights, User, held};
use surety_kernel::{Kernel, RealKernel};
use surety_model::workload::{Rights as Asked, TaskBody, Workload};
use surety_model::world::WorldError;
use surety_units::Capabilities;

/// The rights a command gets.
///
/// # Errors
/// In words: a user that is not there or that this process may not start programs as, capabilities it does not have.
pub fn rights_of(object: &str, asked: &Asked) -> Result<Rights, WorldError> {
    let own = Own { held: held(), user: RealKernel::new().effective_user() };
    own.grant(asked, User::find).map_err(|why| WorldError::Activity { object: object.to_owned(), why })
}

/// Refuses a workload with a command whose rights cannot be given.
///
/// # Errors
/// As [`rights_of`]; and programs of several users that share the directory they are prepared in.
pub(crate) fn check(workload: &Workload) -> Result<(), WorldError> {
    for (kind, name, asked) in workload.rights() {
        rights_of(&kind.path(name), asked)?;
    }
    shared_user(workload).map(drop)
}

/// The user of the programs that share the directory they are prepared in.
pub(crate) fn shared_user(workload: &Workload) -> Result<Option<User>, WorldError> {
    let mut found: Option<User> = None;
    for task in &workload.tasks {
        let TaskBody::Command(program) = &task.body else { continue };
        if program.prepare.is_none() {
            continue;
        }
        let object = format!("task.{}", task.name);
        let Some(user) = rights_of(&object, &program.rights)?.user else { continue };
        if let Some(other) = found.as_ref().filter(|other| other.uid != user.uid) {
            let why = format!(
                "its user is {} and that of another task is {}, and tasks with `prepare` share one directory; give them the same user",
                user.name, other.name
            );
            return Err(WorldError::Activity { object, why });
        }
        found = Some(user);
    }
    Ok(found)
}

/// What this process may give.
struct Own {
    held: Held,
    user: u32,
}

impl Own {
    fn grant(&self, asked: &Asked, find: impl Fn(&str) -> Option<User>) -> Result<Rights, String> {
        let has = |wanted: Capabilities| wanted.without(self.held.permitted).is_empty();
        let user = match &asked.user {
            None => None,
            Some(name) => {
                let none =
                    || format!("there is no user `{name}` on this machine (`getent passwd` lists them)");
                let user = find(name).ok_or_else(none)?;
                if !has(Capabilities::SET_USER) && user.uid != self.user {
                    return Err(format!(
                        "only root may start a command as user {}; run surety with sudo",
                        user.name
                    ));
                }
                (has(Capabilities::SET_USER)).then_some(user)
            }
        };
        let keep = asked.keep.unwrap_or(Capabilities::NONE);
        let is_all = keep == Capabilities::ALL;
        if !is_all && !has(keep) {
            let missing = keep.without(self.held.permitted);
            return Err(format!(
                "it cannot keep {missing}: this process does not have it; run surety with sudo"
            ));
        }
        let is_root = user.as_ref().map_or(self.user, |user| user.uid) == 0;
        let usual = if is_root { Capabilities::ORDINARY_ROOT } else { Capabilities::NONE };
        let wanted = Capabilities(usual.0 | keep.0);
        let capabilities = if is_all { wanted } else { wanted.and(self.held.permitted) };
        Ok(Rights { user, capabilities, may_gain: is_all })
    }
}

/// What a command that failed may have lacked, where something was dropped.
pub fn lacked(rights: &Rights) -> Option<String> {
    let is_less = rights.capabilities != held().permitted || rights.user.is_some();
    (is_less && !rights.may_gain)
        .then(|| format!("the command ran with {}; --keep-capabilities lets it keep more", describe(rights)))
}

/// The rights of a workload's commands, each different one with whom it is of; `None` where the workload has no command.
pub(crate) fn in_words(workload: &Workload) -> Option<String> {
    let mut of: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (_, name, asked) in workload.rights() {
        let words = rights_of(name, asked).map_or_else(|error| error.to_string(), |rights| describe(&rights));
        of.entry(words).or_default().push(name);
    }
    let words = of.into_iter().map(|(words, names)| format!("{}: {words}", names.join(", ")));
    let words = words.collect::<Vec<_>>().join("; ");
    Some(words).filter(|words| !words.is_empty())
}

/// `user nobody, no new privileges, capabilities sys_nice`.
fn describe(rights: &Rights) -> String {
    let user = rights.user.as_ref().map_or_else(String::new, |user| format!("user {}, ", user.name));
    if rights.may_gain {
        return format!("{user}all capabilities kept");
    }
    let capabilities = match rights.capabilities {
        Capabilities::NONE => "no capabilities".to_owned(),
        some => format!("capabilities {some}"),
    };
    format!("{user}no new privileges, {capabilities}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str) -> Option<User> {
        let uid = ["root", "ann", "bob"].iter().position(|known| *known == name)? as u32;
        Some(User { name: name.to_owned(), uid, gid: uid, groups: vec![uid], home: String::new() })
    }

    #[test]
    fn what_is_asked_for_is_given_or_refused_in_words() {
        let root = Held { permitted: Capabilities((1 << 41) - 1), bounding: Capabilities((1 << 41) - 1) };
        let none = Held { permitted: Capabilities::NONE, ..root };
        let nice = Held { permitted: Capabilities(1 << 23), ..root };
        let ordinary = Capabilities::ORDINARY_ROOT.to_string();
        for (held, own, user, keep, words) in [
            (root, 0, None, None, format!("no new privileges, capabilities {ordinary}")),
            (root, 0, Some("ann"), None, "user ann, no new privileges, no capabilities".to_owned()),
            (
                root,
                0,
                Some("ann"),
                Some("sys_nice"),
                "user ann, no new privileges, capabilities sys_nice".to_owned(),
            ),
            (root, 0, None, Some("sys_nice"), format!("no new privileges, capabilities {ordinary},sys_nice")),
            (root, 0, None, Some("all"), "all capabilities kept".to_owned()),
            (root, 0, Some("eve"), None, "no user `eve`".to_owned()),
            (none, 1, None, None, "no new privileges, no capabilities".to_owned()),
            (none, 1, Some("ann"), None, "no new privileges, no capabilities".to_owned()),
            (none, 1, Some("bob"), None, "only root may start a command as user bob".to_owned()),
            (none, 1, None, Some("sys_nice"), "it cannot keep sys_nice".to_owned()),
            (nice, 1, None, None, "no new privileges, no capabilities".to_owned()),
            (nice, 1, None, Some("sys_nice"), "no new privileges, capabilities sys_nice".to_owned()),
            (nice, 0, None, None, "no new privileges, no capabilities".to_owned()),
        ] {
            let asked = Asked { user: user.map(str::to_owned), keep: keep.map(|k| k.parse().unwrap()) };
            let said = match (Own { held, user: own }).grant(&asked, find) {
                Ok(rights) => describe(&rights),
                Err(why) => why,
            };
            assert!(said.contains(&words), "{user:?} {keep:?}: {said}");
        }
    }

    #[test]
    fn programs_that_share_a_directory_have_one_user() {
        let read = |users: [&str; 2]| {
            let task = |user: &str| {
                format!(
                    "[[task]]\nname = \"t-{user}\"\ncommand = \"x\"\nprepare = \"y\"\nuser = \"{user}\"\n"
                )
            };
            let text = format!("format = 1\n{}{}", task(users[0]), task(users[1]));
            shared_user(&surety_model::formats::toml::read("w.toml", &text).unwrap())
        };
        if RealKernel::new().effective_user() != 0 {
            eprintln!("SKIPPED: only root may start programs as another user");
            return;
        }
        let refused = read(["nobody", "daemon"]).unwrap_err().to_string();
        assert!(refused.contains("share one directory"), "{refused}");
        assert_eq!(read(["nobody", "65534"]).unwrap().unwrap().name, "nobody");
    }
}
