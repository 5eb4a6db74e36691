//! What must hold between the objects of a workload: names are unique and every name used is one that is there.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::source::{Diagnostic, nearest};
use crate::workload::{Instances, Phase, PolicySpec, TaskBody, Workload};

/// Notes duplicate names, names of nothing, and settings that contradict each other.
pub(super) fn references(workload: &Workload, list: &mut Vec<Diagnostic>) {
    let mut check = Check { workload, list };
    check.unique_names();
    for task in &workload.tasks {
        let path = format!("task.{}", task.name);
        check.group(&path, task.group.as_deref());
        if task.policy == PolicySpec::Deadline && task.reservation.is_none() {
            let help =
                "write `reservation = { runtime = \"5ms\", period = \"40ms\" }`, or let `plan` find one";
            check.wrong(
                &format!("{path}.policy"),
                "policy `deadline` needs a reservation".to_owned(),
                Some(help.to_owned()),
            );
        }
        if task.reservation.is_some() && matches!(task.instances, Instances::PerCpu(_)) {
            let message = "the kernel refuses SCHED_DEADLINE to a thread pinned to one CPU".to_owned();
            let help = "give a number of instances instead of \"per-cpu\"".to_owned();
            check.wrong(&format!("{path}.instances"), message, Some(help));
        }
        if let TaskBody::Phases(phases) = &task.body {
            for phase in phases {
                if let Phase::Lock(resource) | Phase::Unlock(resource) = phase {
                    check.named(&format!("{path}.phases"), "resource", resource);
                }
            }
        }
    }
    for load in &workload.loads {
        let path = format!("load.{}", load.name);
        check.group(&path, load.group.as_deref());
        check.disk(&path, load.disk.as_deref());
        if load.policy == PolicySpec::Deadline {
            let message = "a load is best effort: it takes no deadline policy".to_owned();
            check.wrong(
                &format!("{path}.policy"),
                message,
                Some("make it a task with a reservation".to_owned()),
            );
        }
    }
    for stream in &workload.streams {
        check.disk(&format!("stream.{}", stream.name), stream.disk.as_deref());
    }
    for startup in &workload.startups {
        check.disk(&format!("startup.{}", startup.name), startup.disk.as_deref());
    }
    for chain in &workload.chains {
        for (index, task) in chain.through.iter().enumerate() {
            check.named(&format!("chain.{}.through.{index}", chain.name), "task", task);
        }
    }
    check.groups_form_a_tree();
    let paths = workload.vary.product.keys().chain(workload.vary.rows.iter().flat_map(BTreeMap::keys));
    for path in paths.collect::<Vec<_>>() {
        check.vary_path(path);
    }
}

struct Check<'a> {
    workload: &'a Workload,
    list: &'a mut Vec<Diagnostic>,
}

impl Check<'_> {
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
            "group" => w.groups.iter().map(|g| g.name.as_str()).collect(),
            "resource" => w.resources.iter().map(|r| r.name.as_str()).collect(),
            _ => w.activities().into_iter().filter(|(k, _)| *k == kind).map(|(_, n)| n).collect(),
        }
    }

    fn unique_names(&mut self) {
        let mut kinds: Vec<(&'static str, Vec<String>)> = Vec::new();
        let activities = self.workload.activities();
        kinds.push(("activities", activities.iter().map(|(_, n)| (*n).to_owned()).collect()));
        for kind in ["group", "resource"] {
            kinds.push((kind, self.names(kind).into_iter().map(str::to_owned).collect()));
        }
        for (what, mut names) in kinds {
            names.sort_unstable();
            let doubles: Vec<String> =
                names.windows(2).filter(|w| w[0] == w[1]).map(|w| w[1].clone()).collect();
            for name in doubles {
                let kind = activities.iter().rev().find(|(_, n)| *n == name).map_or(what, |(k, _)| *k);
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
        let kinds = ["task", "irq", "disk", "stream", "startup", "load", "group", "chain", "resource"];
        let known = parts.len() >= 3 && kinds.contains(&parts[0]);
        if !known {
            let message = format!("`{path}` is no path into the workload");
            let help = "write it as kind.name.key, such as \"load.readers.count\"".to_owned();
            self.wrong(&format!("vary.{path}"), message, Some(help));
            return;
        }
        self.named(&format!("vary.{path}"), parts[0], parts[1]);
    }
}
