//! What is said of a recording that was made. JSON: `docs/formats/trace-record.md`.

use serde_json::{Value, json};
use surety_host::recorder::{Ending, EventFilter, RawTrace, RecordingOptions};
use surety_model::job::Job;
use surety_report::number_of;
use surety_trace::{Met, ReadSummary};
use surety_units::{CpuSet, Nanos};

use super::End;
use crate::args::RecordArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// What was made.
pub struct Made<'a> {
    /// The recording.
    pub raw: &'a RawTrace,
    /// What a reader finds in the file.
    pub summary: &'a ReadSummary,
    /// How long was recorded.
    pub elapsed: Nanos,
    /// Length of the file.
    pub bytes: u64,
    /// CPU time of this program.
    pub overhead: Nanos,
    /// CPUs recorded.
    pub cpus: CpuSet,
    /// What was asked for.
    pub options: &'a RecordingOptions,
}

impl Made<'_> {
    /// Prints it.
    pub fn tell(&self, args: &RecordArgs, end: &End, code: Code, session: &Session) -> Result<(), Failure> {
        if session.json {
            session.print_json(&self.json(args, end, code))?;
        }
        if let End::Command(status) = end
            && code != Code::Kept
        {
            session.step(&format!("the command ended with {status}"));
        }
        if self.raw.ending == Some(Ending::Size) {
            session.step("ended: --size is reached");
        }
        match (self.raw.met, &args.stop_when) {
            (Some(met), Some(condition)) => {
                session.step(&format!("{condition}: {}", self.met_in_words(&met)));
            }
            (None, Some(condition)) => session.step(&format!("{condition} was not met")),
            (_, None) => {}
        }
        let kept = match args.keep {
            Some(_) => format!("the last {} of {}", self.kept(), self.elapsed),
            None => self.elapsed.to_string(),
        };
        let lost = self.lost();
        let lost_words = if lost == 0 { "none lost".to_owned() } else { format!("{lost} lost") };
        session.step(&format!(
            "{}: {} of CPUs {} in {kept}, {lost_words}, {:.1} MB",
            args.output.display(),
            number_of(self.events(), "event"),
            self.cpus,
            self.bytes as f64 / 1e6
        ));
        session.step(&format!(
            "recording took {} of CPU time, {:.2} % of one CPU{}, and {:.2} MB/s; beside that each event costs time \
             where it happens",
            self.overhead,
            100.0 * self.overhead.get() as f64 / self.elapsed.get().max(1) as f64,
            match args.stop_when {
                Some(_) => format!(" ({} of it to look for the condition)", self.raw.watching),
                None => String::new(),
            },
            self.bytes_per_second() as f64 / 1e6,
        ));
        if !self.options.pids.is_empty() || !self.options.filters.is_empty() {
            session.note(
                "not all events were recorded: figures hold of threads all of whose switches and wake-ups are in it",
            );
        }
        if self.raw.shortened {
            session.note("more came than --size has room for: at times less than --keep was on disk");
        }
        if lost > 0 {
            let by_cpu: Vec<String> = self
                .raw
                .stats
                .iter()
                .filter(|(_, stats)| stats.lost() > 0)
                .map(|(cpu, stats)| format!("{} on CPU {cpu}", stats.lost()))
                .collect();
            session.note(&format!(
                "events came faster than they could be carried off: {}; jobs around the holes are given up. A larger \
                 --buffer than {} for each CPU holds longer bursts, and fewer events come with --only-events",
                by_cpu.join(", "),
                args.buffer
            ));
        }
        Ok(())
    }

    fn events(&self) -> u64 {
        self.summary.events.iter().map(|e| e.count).sum()
    }

    fn lost(&self) -> u64 {
        self.summary.lost_at_least().max(self.raw.lost())
    }

    /// From the first record in the file to the end.
    fn kept(&self) -> Nanos {
        self.summary.span.map_or(Nanos::ZERO, |(first, _)| self.raw.end - first)
    }

    fn bytes_per_second(&self) -> u64 {
        let bytes = u128::from(self.raw.carried) * 1_000_000_000;
        let rate = bytes / u128::from(self.elapsed.get_unsigned().max(1));
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    fn met_in_words(&self, met: &Met) -> String {
        format!(
            "met by {} {} with {}, {} before the end",
            met.tid,
            met.comm,
            met.value,
            (self.raw.end - met.at).max(Nanos::ZERO)
        )
    }

    /// `surety.trace-record/1`.
    fn json(&self, args: &RecordArgs, end: &End, code: Code) -> Value {
        let met = self.raw.met;
        let ended_by = match (end, self.raw.ending) {
            (_, Some(Ending::Condition)) => "condition",
            (_, Some(Ending::Size)) => "size",
            (End::Command(_), None) => "command",
            (End::Interrupted, None) => "interrupt",
            (End::Time | End::Limit, None) => "time",
        };
        let status = match end {
            End::Command(status) => Some(status.to_string()),
            _ => None,
        };
        let lost_by_cpu =
            self.raw.stats.iter().map(|(cpu, stats)| json!({ "cpu": cpu.0, "lost": stats.lost() }));
        let filters = self
            .options
            .filters
            .iter()
            .map(|EventFilter { event, expression }| json!({ "event": event, "expression": expression }));
        let of_job = |value: fn(&Job) -> Nanos| met.and_then(|met| met.job.as_ref().map(value));
        json!({
            "schema": "surety.trace-record/1",
            "file": args.output.display().to_string(),
            "bytes": self.bytes,
            "events": self.events(),
            "lost": self.lost(),
            "lost_by_cpu": lost_by_cpu.collect::<Vec<_>>(),
            "missing": self.raw.missing,
            "duration_ns": self.elapsed,
            "kept_ns": self.kept(),
            "shortened": self.raw.shortened,
            "buffer": args.buffer.0,
            "carried": self.raw.carried,
            "carried_per_second": self.bytes_per_second(),
            "spliced": self.raw.spliced,
            "own_cpu_time_ns": self.overhead,
            "condition_cpu_time_ns": self.raw.watching,
            "cpus": self.cpus.to_string(),
            "pids": self.options.pids.iter().map(|pid| pid.0).collect::<Vec<_>>(),
            "filters": filters.collect::<Vec<_>>(),
            "ended_by": ended_by,
            "condition": args.stop_when.map(|condition| condition.to_string()),
            "met": met.map(|met| json!({
                "tid": met.tid,
                "name": met.comm.text(),
                "value_ns": met.value,
                "at_ns": met.at,
                "release_ns": of_job(|job| job.release),
                "start_ns": of_job(|job| job.start),
            })),
            "command": status,
            "interrupted": matches!(end, End::Interrupted),
            "exit": code as u8,
        })
    }
}
