//! [`Rights`]: as whom a command runs, and with which privileges.

use surety_units::Capabilities;

use super::{ActivityKind, StartupBody, TaskBody, Workload};

/// As whom a command of a workload runs, and with which privileges. Without a word it runs as who starts it, gains no privileges by what
/// it executes (`no_new_privs`), and has of the capabilities only [`Capabilities::ORDINARY_ROOT`], as another user none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rights {
    /// The user, by name or number; `None`: who starts it.
    pub user: Option<String>,
    /// Capabilities it keeps in addition. [`Capabilities::ALL`]: every one, and what it executes may gain privileges.
    pub keep: Option<Capabilities>,
}

impl Rights {
    /// What is said here, and where nothing is said what the others say.
    fn or(&self, others: &Rights) -> Rights {
        Rights { user: self.user.clone().or_else(|| others.user.clone()), keep: self.keep.or(others.keep) }
    }
}

impl Workload {
    /// The rights of every command: kind and name of the activity, and its rights.
    pub fn rights(&self) -> impl Iterator<Item = (ActivityKind, &str, &Rights)> {
        let of_tasks = self.tasks.iter().filter_map(|task| match &task.body {
            TaskBody::Command(program) => Some((ActivityKind::Task, task.name.as_str(), &program.rights)),
            _ => None,
        });
        let of_startups = self.startups.iter().filter(|s| matches!(s.body, StartupBody::Command(_)));
        let of_loads = self.loads.iter().filter(|load| load.kind.row().is_program);
        of_tasks
            .chain(of_startups.map(|s| (ActivityKind::Startup, s.name.as_str(), &s.rights)))
            .chain(of_loads.map(|load| (ActivityKind::Load, load.name.as_str(), &load.rights)))
    }

    /// Gives these rights to every command for which the workload says nothing else; whether there is one.
    pub fn give_rights(&mut self, rights: &Rights) -> bool {
        let of_tasks = self.tasks.iter_mut().filter_map(|task| match &mut task.body {
            TaskBody::Command(program) => Some(&mut program.rights),
            _ => None,
        });
        let of_startups = self.startups.iter_mut().filter(|s| matches!(s.body, StartupBody::Command(_)));
        let of_loads = self.loads.iter_mut().filter(|load| load.kind.row().is_program);
        let all = of_tasks.chain(of_startups.map(|s| &mut s.rights)).chain(of_loads.map(|l| &mut l.rights));
        let mut is_any = false;
        for own in all {
            *own = own.or(rights);
            is_any = true;
        }
        is_any
    }
}
