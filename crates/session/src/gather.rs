//! Results in files, gathered as the runs of one side of a comparison.

use surety_compare::Side;
use surety_model::formats::record::{LabelledRecord, RecordFile};

use crate::failure::Failure;

/// The runs of one side.
#[derive(Debug)]
pub struct Gathered {
    /// The label asked for and the files, in words.
    pub name: String,
    workload: Option<String>,
    results: Vec<LabelledRecord>,
}

impl Gathered {
    /// The results of files, each with its name, whose label starts with `label`.
    ///
    /// # Errors
    /// No result has such a label; they are of different kinds.
    pub fn of(files: Vec<(String, RecordFile)>, label: Option<&str>) -> Result<Gathered, Failure> {
        let first = files.first().map(|(name, _)| name.clone()).unwrap_or_default();
        let more = if files.len() > 1 { format!(" and {} more", files.len() - 1) } else { String::new() };
        let (mut results, mut workload, mut labels, mut unmade) = (Vec::new(), None, Vec::new(), None);
        for (_, file) in files {
            workload = workload.or(file.workload).or(file.title);
            for result in file.results {
                let is_wanted = label.is_none_or(|start| result.label.starts_with(start));
                // A run that could not be made has no activities: it is no run.
                if result.record.activities.is_empty() {
                    let why = result.record.degraded.first().map_or("it was not run", String::as_str);
                    unmade = unmade.or(is_wanted.then(|| format!("{}: {why}", result.label)));
                    continue;
                }
                labels.push(result.label.clone());
                if is_wanted {
                    results.push(result);
                }
            }
        }
        let name = label.map_or_else(String::new, |l| format!("{l} in ")) + &first + &more;
        labels.dedup();
        if results.is_empty() {
            let why = unmade.unwrap_or_else(|| "no result has the label asked for".to_owned());
            let what = format!("{first}{more}: {why}");
            return Err(Failure::request(what, format!("there are {}", labels.join(", "))));
        }
        // `host #3` is the third run of `host`.
        let kind = |r: &LabelledRecord| r.label.split(" #").next().unwrap_or_default().to_owned();
        let mut kinds: Vec<String> = results.iter().map(kind).collect();
        kinds.sort();
        kinds.dedup();
        if kinds.len() > 1 {
            let what = format!("{first}{more} holds results of different kinds: {}", kinds.join(", "));
            return Err(Failure::request(what, "choose one with --result LABEL; a second --result is for B"));
        }
        Ok(Gathered { name, workload, results })
    }

    /// The side of a comparison, under a name of its own.
    pub fn side(&self, label: String) -> Side<'_> {
        let runs = self.results.iter().map(|r| &r.record).collect();
        Side { label, runs, workload: self.workload.clone() }
    }
}
