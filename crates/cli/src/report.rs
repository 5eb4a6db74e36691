//! `surety report`: results in files, our own or another program's, as tables, JSON or a page.

use std::path::Path;

use surety_model::formats::record::{LabelledRecord, RecordFile};
use surety_model::record::Record;
use surety_report::{Report, Row, table};

use crate::args::ReportArgs;
use crate::exit::{Code, Failure};
use crate::files;
use crate::gates;
use crate::session::Session;

/// The verb.
pub fn report(args: &ReportArgs, session: &Session) -> Result<Code, Failure> {
    let mut files: Vec<RecordFile> = Vec::new();
    for path in &args.files {
        files.push(read_results(path)?);
    }
    let several = files.len() > 1;
    let results: Vec<(String, &LabelledRecord)> = args
        .files
        .iter()
        .zip(&files)
        .flat_map(|(path, file)| {
            file.results.iter().map(move |result| (label(path, result, several), result))
        })
        .collect();
    let rows: Vec<Row<'_>> = results.iter().map(|(label, result)| Row::new(label, &result.record)).collect();
    let verdicts = Code::of_outcome(surety_report::summary_of_all(&rows).outcome);
    let records: Vec<(&str, &Record)> = rows.iter().map(|r| (r.label.as_str(), r.record)).collect();
    let code = gates::check(&args.gates, records, verdicts, session)?;
    let only = files.first().filter(|_| !several);
    let names: Vec<String> = args.files.iter().map(|p| p.display().to_string()).collect();
    let names = names.join(", ");
    let document = Report {
        title: only.and_then(|f| f.title.as_deref()),
        file: Some(only.and_then(|f| f.workload.as_deref()).unwrap_or(&names)),
        rows: &rows,
        all_rows: true,
        exit: Some(code as u8),
        ..Report::default()
    };
    session.publish_as(&document, args.html.as_deref(), || {
        let tables: Vec<String> = rows.iter().map(|row| table::record(row, &session.style())).collect();
        tables.join("\n")
    })?;
    Ok(code)
}

/// A result's name: its own, with its file's where there are several files.
fn label(path: &Path, result: &LabelledRecord, several: bool) -> String {
    let file =
        path.file_name().map_or_else(|| path.display().to_string(), |f| f.to_string_lossy().into_owned());
    if several { format!("{file}: {}", result.label) } else { result.label.clone() }
}

/// Reads a file of results: our own JSON, or any format of [`surety_import`].
pub fn read_results(path: &Path) -> Result<RecordFile, Failure> {
    let name = path.display().to_string();
    let unreadable = |why: String| Failure::new(Code::BadInput, format!("{name} cannot be read: {why}"));
    let bytes = files::read(path, files::LENGTH_MAX).map_err(unreadable)?;
    if bytes.len() as u64 > files::DOCUMENT_MAX && bytes.trim_ascii_start().starts_with(b"{") {
        let most = files::DOCUMENT_MAX >> 20;
        return Err(unreadable(format!("it is a JSON document longer than {most} MiB")));
    }
    let is_ours = |text: &&str| text.contains("\"schema\"") && text.contains("surety.");
    if let Some(text) = std::str::from_utf8(&bytes).ok().filter(is_ours) {
        return surety_model::formats::record::read(text).map_err(|e| unreadable(e.to_string()));
    }
    let result = surety_import::read(&name, &bytes)
        .map_err(|e| unreadable(e.to_string()).help("docs/formats/import.md lists what can be read"))?;
    Ok(RecordFile { title: None, workload: None, results: vec![result] })
}
