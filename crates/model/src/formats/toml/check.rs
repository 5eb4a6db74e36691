//! What must hold between the objects of a workload: names are unique and every name used is one that is there.

mod chains;
mod phases;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::source::{Diagnostic, nearest};
use crate::workload::{ActivityKind, Instances, Load, Release, Task, TaskBody, ThreadMatch, Workload};
use surety_units::{Bytes, Rate};

/// Notes duplicate names, names of nothing, and settings that contradict each other.
pub(in crate::formats) fn references(workload: &Workload, list: &mut Vec<Diagnostic>) {
    let mut check = Check { workload, list };
    check.unique_names();
    let raised = phases::Raised::of(workload);
    for task in &workload.tasks {
        let path = format!("task.{}", task.name);
        check.group(&path, task.group.as_deref());
        if task.policy.needs_reservation() && task.reservation.is_none() {
            let help =
                "write `reservation = { runtime = \"5ms\", period = \"40ms\" }`, or let `plan` find one";
            check.wrong(
                &format!("{path}.policy"),
                format!("policy `{}` needs a reservation", task.policy.word()),
                Some(help.to_owned()),
            );
        }
        if task.reservation.is_some() && matches!(task.instances, Instances::PerCpu(_)) {
            let message = "the kernel refuses SCHED_DEADLINE to a thread pinned to one CPU".to_owned();
            let help = "give a number of instances instead of \"per-cpu\"".to_owned();
            check.wrong(&format!("{path}.instances"), message, Some(help));
        }
        if task.policy.has_deadlines() && task.reservation.is_none() && task.relative_deadline().is_none() {
            let help = "add a `period`, or a promise such as \"response <= 40ms\"".to_owned();
            let message = format!("policy `{}` needs jobs with a deadline", task.policy.word());
            check.wrong(&format!("{path}.policy"), message, Some(help));
        }
        if task.reservation.is_some() && task.cpus.is_some() && !task.policy.has_deadlines() {
            let message = "the kernel refuses SCHED_DEADLINE to a thread with CPUs of its own".to_owned();
            check.wrong(&format!("{path}.cpus"), message, Some("leave `cpus` out".to_owned()));
        }
        check.of_made_threads(&path, task);
        check.threads_of_programs(&path, task);
        check.changes(&path, task);
        check.clamps_and_groups(&path, task);
        check.phases(&path, task, &raised);
    }
    for load in &workload.loads {
        let path = format!("load.{}", load.name);
        check.group(&path, load.group.as_deref());
        check.disk(&path, load.disk.as_deref());
        check.keys_of(&path, load);
        if load.policy.takes_reservation() {
            let word = load.policy.word();
            let message = format!("a load is best effort: it takes no {word} policy");
            check.wrong(
                &format!("{path}.policy"),
                message,
                Some("make it a task with a reservation".to_owned()),
            );
        }
    }
    for disk in &workload.disks {
        check.virtual_disk(disk);
    }
    for stream in &workload.streams {
        let path = format!("stream.{}", stream.name);
        check.disk(&path, stream.disk.as_deref());
        check.group(&path, stream.group.as_deref());
        if let Err((key, why)) = stream.check_sizes() {
            check.wrong(&format!("{path}.{key}"), why.to_owned(), None);
        }
    }
    for startup in &workload.startups {
        let path = format!("startup.{}", startup.name);
        check.disk(&path, startup.disk.as_deref());
        check.group(&path, startup.group.as_deref());
    }
    for flow in &workload.flows {
        check.named(&format!("flow.{}.link", flow.name), "link", &flow.link);
    }
    for chain in &workload.chains {
        check.chain(chain);
    }
    check.groups_form_a_tree();
    check.events(&raised);
    let paths = workload.vary.product.keys().chain(workload.vary.rows.iter().flat_map(BTreeMap::keys));
    for path in paths.collect::<Vec<_>>() {
        check.vary_path(path);
    }
}

/// Bytes of the least that a file has on a disk.
const PAGE: u64 = 4096;

struct Check<'a> {
    workload: &'a Workload,
    list: &'a mut Vec<Diagnostic>,
}

impl Check<'_> {
    /// A virtual disk is on one that is none, has a size, and no model of its own.
    fn virtual_disk(&mut self, disk: &crate::workload::Disk) {
        let path = format!("disk.{}", disk.name);
        let Some(on) = disk.on.as_deref() else {
            let process = [
                ("io-priority", "an I/O priority", disk.io_priority.is_some()),
                ("group", "a group", disk.group.is_some()),
            ];
            for (key, what, _) in process.into_iter().filter(|(.., is_given)| *is_given) {
                let message = format!("only a virtual machine's disk has {what}");
                let help = "name its host's disk with `on`".to_owned();
                self.wrong(&format!("{path}.{key}"), message, Some(help));
            }
            return;
        };
        self.group(&path, disk.group.as_deref());
        self.named(&format!("{path}.on"), "disk", on);
        let host = self.workload.disks.iter().find(|host| host.name == on);
        if host.is_some_and(|host| host.on.is_some()) {
            let message = format!("disk `{on}` is a virtual machine's too");
            self.wrong(&format!("{path}.on"), message, Some("name a disk of the host".to_owned()));
        }
        if disk.make.is_none() {
            let message = "a virtual disk has the size of its file".to_owned();
            self.wrong(&format!("{path}.on"), message, Some("add `make = \"20GB\"`".to_owned()));
        }
        if disk.make.is_some_and(|size| size.0 < PAGE) {
            let message = "a virtual disk has room for a page of 4KiB at least".to_owned();
            self.wrong(&format!("{path}.make"), message, Some("write `make = \"20GB\"`".to_owned()));
        }
        if disk.model.is_some() {
            let message = "a virtual disk is as fast as the host's disk lets it be".to_owned();
            self.wrong(&format!("{path}.model"), message, Some("leave `model` out".to_owned()));
        }
    }

    /// What is of threads that are made for the run: timer slack, clamps of utilisation, and beginning together.
    fn of_made_threads(&mut self, path: &str, task: &Task) {
        if task.timer_slack.is_some() && matches!(task.body, TaskBody::Command(_) | TaskBody::Match(_)) {
            let message = "a program has the timer slack that it chooses".to_owned();
            let help = "leave `timer-slack` out, or give the task `work`".to_owned();
            self.wrong(&format!("{path}.timer-slack"), message, Some(help));
        }
        if task.util.is_given() && !task.body.is_made() {
            let message = "a program has the clamps that it chooses".to_owned();
            let help = "leave `util-min` and `util-max` out, or give the task `work`".to_owned();
            self.wrong(path, message, Some(help));
        }
        if task.is_clamped() && task.schedules().any(|of| of.is_deadline()) {
            let message = "clamps of utilisation mean nothing to SCHED_DEADLINE".to_owned();
            let help = "leave `util-min` and `util-max` out, or the reservation".to_owned();
            self.wrong(path, message, Some(help));
        }
        if task.together && !(task.body.is_made() && matches!(task.release, Release::BackToBack { .. })) {
            let message = "only threads whose jobs come back to back begin together".to_owned();
            let help = "leave `together` out, or write `release = \"back-to-back\"`".to_owned();
            self.wrong(&format!("{path}.together"), message, Some(help));
        }
    }

    fn span(&self, path: &str) -> Range<usize> {
        self.workload.source.span(path).unwrap_or(0..0)
    }

    fn wrong(&mut self, path: &str, message: String, help: Option<String>) {
        let span = self.span(path);
        self.list.push(Diagnostic { message, span, label: "here".to_owned(), help });
    }

    /// Names of one kind, in the order of the file.
    fn names(&self, kind: &str) -> Vec<&str> {
        let w = self.workload;
        match kind {
            "disk" => w.disks.iter().map(|d| d.name.as_str()).collect(),
            "link" => w.links.iter().map(|l| l.name.as_str()).collect(),
            "group" => w.groups.iter().map(|g| g.name.as_str()).collect(),
            "resource" => w.resources.iter().map(|r| r.name.as_str()).collect(),
            "event" => w.events.iter().map(|e| e.name.as_str()).collect(),
            _ => w.activities().into_iter().filter(|a| a.kind.word() == kind).map(|a| a.name).collect(),
        }
    }

    /// A key that a kind of load does not look at is a slip.
    fn keys_of(&mut self, path: &str, load: &Load) {
        let given = [
            ("size", load.size.is_some()),
            ("block", load.block.is_some()),
            ("rate", load.rate.is_some()),
            ("disk", load.disk.is_some()),
            ("direct", load.direct),
            ("random", load.random),
            ("io-priority", load.io_priority.is_some()),
            ("period", load.period.is_some()),
            ("once", load.once),
            ("message-cost", load.message_cost.is_some()),
        ];
        let row = load.kind.row();
        let taken: Vec<&str> = row.keys.iter().map(|key| key.word()).collect();
        for (key, _) in given.into_iter().filter(|(key, is_given)| *is_given && !row.takes(key)) {
            let message = format!("a load of kind `{}` takes no `{key}`", load.kind.word());
            let help = match taken.as_slice() {
                [] => "leave it out".to_owned(),
                keys => format!("it takes {}", keys.join(", ")),
            };
            self.wrong(&format!("{path}.{key}"), message, Some(help));
        }
        let nothing = [
            ("period", load.period.is_some_and(|period| !period.is_positive())),
            ("message-cost", load.message_cost.is_some_and(|cost| !cost.is_positive())),
            ("rate", load.rate == Some(Rate(0))),
            ("block", load.block == Some(Bytes(0))),
            ("size", load.size == Some(Bytes(0))),
        ];
        for (key, _) in nothing.into_iter().filter(|(_, is_nothing)| *is_nothing) {
            let help = format!("leave `{key}` out to have that of its kind");
            self.wrong(&format!("{path}.{key}"), format!("`{key}` is more than nothing"), Some(help));
        }
    }

    fn unique_names(&mut self) {
        let mut kinds: Vec<(&'static str, Vec<String>)> = Vec::new();
        let activities = self.workload.activities();
        kinds.push(("activities", activities.iter().map(|a| a.name.to_owned()).collect()));
        for kind in ["group", "resource", "event"] {
            kinds.push((kind, self.names(kind).into_iter().map(str::to_owned).collect()));
        }
        for (what, mut names) in kinds {
            names.sort_unstable();
            let doubles: Vec<String> =
                names.windows(2).filter(|w| w[0] == w[1]).map(|w| w[1].clone()).collect();
            for name in doubles {
                let kind = activities.iter().rev().find(|a| a.name == name).map_or(what, |a| a.kind.word());
                let message = format!(
                    "two {} are called `{name}`",
                    if what == "activities" { what } else { "of a kind" }
                );
                let help = "results are told apart by name: give each its own".to_owned();
                self.wrong(&format!("{kind}.{name}"), message, Some(help));
            }
        }
    }

    fn named(&mut self, path: &str, kind: &str, name: &str) {
        let names = self.names(kind);
        if names.contains(&name) {
            return;
        }
        let help = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.is_empty() => format!("the workload has no {kind}"),
            None => format!("there are: {}", names.join(", ")),
        };
        self.wrong(path, format!("there is no {kind} `{name}`"), Some(help));
    }

    /// A thread of a program names one, and a reservation is of one thread.
    fn threads_of_programs(&mut self, path: &str, task: &Task) {
        let matched = format!("{path}.match");
        if let Some((of, role)) = task.thread_of() {
            self.named(&matched, "task", of);
            if self.workload.task(of).is_some_and(|of| !of.is_program()) {
                let help = "name a task with a `command`, or with `match = { process = N }`".to_owned();
                self.wrong(&matched, format!("`{of}` is no program: it has one thread"), Some(help));
            }
            if task.instances != Instances::Count(1) {
                let help = format!("write a task for each thread, with `rank` {} and so on", role.rank + 1);
                self.wrong(&matched, "one thread has one instance".to_owned(), Some(help));
            }
        }
        if matches!(&task.body, TaskBody::Match(ThreadMatch::Process(_))) && task.reservation.is_some() {
            let help =
                format!("reserve its threads: `match = {{ task = \"{}\", comm = \"...\" }}`", task.name);
            self.wrong(&matched, "a reservation is of one thread, not of a process".to_owned(), Some(help));
        }
    }

    fn group(&mut self, path: &str, group: Option<&str>) {
        if let Some(group) = group {
            self.named(&format!("{path}.group"), "group", group);
        }
    }

    fn disk(&mut self, path: &str, disk: Option<&str>) {
        if let Some(disk) = disk {
            self.named(&format!("{path}.disk"), "disk", disk);
        }
    }

    fn groups_form_a_tree(&mut self) {
        let groups = self.workload.groups.clone();
        for group in &groups {
            let path = format!("group.{}.parent", group.name);
            if let Some(parent) = &group.parent {
                self.named(&path, "group", parent);
            }
            let mut above = group.parent.as_deref();
            let mut steps = 0;
            while let Some(name) = above {
                if name == group.name || steps > groups.len() {
                    let message = format!("group `{}` is inside itself", group.name);
                    self.wrong(&path, message, Some("a group's parents must end".to_owned()));
                    break;
                }
                steps += 1;
                above = groups.iter().find(|g| g.name == name).and_then(|g| g.parent.as_deref());
            }
        }
    }

    /// `kind.name.key` must name something that is there.
    fn vary_path(&mut self, path: &str) {
        let parts: Vec<&str> = path.split('.').collect();
        let is_kind = |word| {
            ["disk", "link", "group", "resource"].contains(&word)
                || ActivityKind::of_word(word).is_some_and(ActivityKind::is_section)
        };
        let known = parts.len() >= 3 && is_kind(parts[0]);
        if !known {
            let message = format!("`{path}` is no path into the workload");
            let help = "write it as kind.name.key, such as \"load.readers.count\"".to_owned();
            self.wrong(&format!("vary.{path}"), message, Some(help));
            return;
        }
        self.named(&format!("vary.{path}"), parts[0], parts[1]);
    }
}
