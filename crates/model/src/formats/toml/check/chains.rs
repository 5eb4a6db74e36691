//! What must hold of chains: events come by themselves, and every stage is a task that can hand them on.

use super::Check;
use crate::workload::{Arrivals, Chain};

impl Check<'_> {
    /// One chain and its stages.
    pub(super) fn chain(&mut self, chain: &Chain) {
        let path = format!("chain.{}", chain.name);
        if let Some((message, help)) = no_events(&chain.start) {
            self.wrong(&format!("{path}.start"), message.to_owned(), Some(help.to_owned()));
        }
        if chain.through.is_empty() {
            let message = "a chain passes at least one task".to_owned();
            self.wrong(&format!("{path}.through"), message, Some("name tasks of the workload".to_owned()));
        }
        for (index, name) in chain.through.iter().enumerate() {
            let stage = format!("{path}.through.{index}");
            self.named(&stage, "task", name);
            if chain.through[..index].contains(name) {
                let help = "write a task for each place".to_owned();
                self.wrong(&stage, format!("the chain passes `{name}` twice"), Some(help));
            }
            let Some(task) = self.workload.task(name) else { continue };
            if let Some((key, why, help)) = task.no_stage() {
                let message = format!("`{name}` is no stage of a chain: {why} (`task.{name}.{key}`)");
                self.wrong(&stage, message, Some(help.to_owned()));
            }
        }
    }
}

/// Why there are no events of their own, and what to write.
fn no_events(start: &Arrivals) -> Option<(&'static str, &'static str)> {
    match start {
        Arrivals::Poisson { rate } if rate.0 == 0 => {
            Some(("a rate of nothing has no events", "give it a rate above zero"))
        }
        Arrivals::Closed { .. } => {
            let help = "write `periodic`, `sporadic` or `poisson`";
            Some(("events of a chain come by themselves, not when one before is done", help))
        }
        Arrivals::Periodic { .. } | Arrivals::Sporadic { .. } | Arrivals::Poisson { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::formats::toml::read;

    /// What is said of a chain through `through`, started as `start` says, beside a task `t` with these lines.
    fn said(task: &str, start: &str, through: &str) -> String {
        let text = format!(
            "format = 1\n[[task]]\nname = \"t\"\n{task}\n[[chain]]\nname = \"c\"\nstart = {start}\nthrough = {through}\n"
        );
        read("w.toml", &text).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn stages_hand_on_and_events_come_by_themselves() {
        let (work, often) = ("work = \"1ms\"", "{ kind = \"poisson\", rate = \"5/s\" }");
        let one = "[\"t\"]";
        for (task, start, through, expected) in [
            (work, often, one, ""),
            (work, often, "[]", "a chain passes at least one task"),
            (work, often, "[\"u\"]", "there is no task `u`"),
            (work, often, "[\"t\", \"t\"]", "passes `t` twice"),
            (work, "{ kind = \"poisson\", rate = \"0/s\" }", one, "a rate of nothing"),
            (work, "{ kind = \"periodic\", period = \"0s\" }", one, "`period` is zero"),
            (work, "{ kind = \"closed\", outstanding = 1, service = \"1ms\" }", one, "come by themselves"),
            ("command = \"true\"", often, one, "a program is handed no events (`task.t.name`)"),
            ("work = \"forever\"", often, one, "a job without end hands nothing on"),
            ("work = \"1ms\"\ninstances = 2", often, one, "a stage of a chain is one thread"),
            ("work = \"1ms\"\njobs = 2", often, one, "a stage of a chain does not end"),
            ("work = \"1ms\"\nlate = \"skip\"", often, one, "handles every event"),
            ("work = \"1ms\"\nperiod = \"1ms\"\nlate = \"skip\"", often, one, ""),
        ] {
            let said = said(task, start, through);
            let is_as_expected = if expected.is_empty() { said.is_empty() } else { said.contains(expected) };
            assert!(is_as_expected, "{task} {start} {through}: {said}");
        }
    }
}
