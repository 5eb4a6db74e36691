//! [`Session`]: the terminal, the signals, the journal: what every command shares.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::rc::Rc;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use indicatif::{ProgressBar, ProgressStyle};
use surety_kernel::RealKernel;
use surety_kernel::journal::{Entry, Journal, Recovered, RuntimeDir, Undone, recover_dead};
use surety_kernel::signals::Interrupt;
use surety_model::event::{Event, TraceSink};
use surety_model::world::{Cancel, Observer};
use surety_units::Nanos;

use surety_report::{Report, Style};
use surety_session::{Context, Stage, Watch};

use crate::args::{Color, Common, Running};
use crate::exit::{Code, Failure, Message};
use crate::files;
use crate::harmless::{harmless, harmless_at_its_places, harmless_json, is_obeyed};

/// What every command shares.
pub struct Session {
    /// This machine.
    pub kernel: RealKernel,
    /// Set by Ctrl-C.
    pub cancel: Cancel,
    /// JSON on standard output, nothing else there.
    pub json: bool,
    /// Colour on standard output.
    pub color: bool,
    quiet: bool,
    verbose: bool,
    /// Columns that were asked for.
    asked_width: Option<usize>,
    /// Notices that were shown: a hundred runs need not say the same a hundred times.
    said: Rc<RefCell<BTreeSet<String>>>,
    journal: OnceCell<Result<Journal, String>>,
    /// What became of expectations, for the JSON document.
    gates: OnceCell<serde_json::Value>,
    /// Uninstalls the handlers at the end.
    _interrupt: Option<Interrupt>,
}

impl Session {
    /// Installs the signal handlers and looks at the terminal.
    pub fn new(common: &Common) -> Session {
        let interrupt = Interrupt::install();
        let cancel = match &interrupt {
            Ok(interrupt) => Cancel::from_flag(interrupt.flag()),
            Err(error) => {
                tell(&format!("warning: Ctrl-C will be mended only by the next start: {error}"));
                Cancel::default()
            }
        };
        files::stop_with(&cancel);
        let color = match common.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        };
        Session {
            kernel: RealKernel::new(),
            cancel,
            json: common.json,
            color,
            quiet: common.quiet,
            verbose: common.verbose,
            asked_width: asked_width(common),
            said: Rc::default(),
            journal: OnceCell::new(),
            gates: OnceCell::new(),
            _interrupt: interrupt.ok(),
        }
    }

    /// Columns that were asked for, else of the terminal; 100 where there is none.
    pub fn width(&self) -> usize {
        let of_terminal = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0).max(40));
        self.asked_width.or_else(of_terminal).unwrap_or(100)
    }

    /// Takes back what dead runs left, and opens this run's journal. `None`, with a note, where there can be none.
    pub fn journal(&self) -> Option<&Journal> {
        match self.open_journal() {
            Ok(journal) => Some(journal),
            Err(why) => {
                self.note(&format!("no journal: threads of others will not be changed: {why}"));
                None
            }
        }
    }

    fn open_journal(&self) -> &Result<Journal, String> {
        self.journal.get_or_init(|| {
            let directory = RuntimeDir::find().map_err(|e| e.to_string())?;
            for recovered in recover_dead(&self.kernel, &directory).map_err(|e| e.to_string())? {
                self.note(&recovery_in_words(&recovered));
            }
            let journal = Journal::open(&self.kernel, &directory).map_err(|e| e.to_string())?;
            Ok(journal.watched(Path::new("/proc/self/exe")))
        })
    }

    /// The journal, for a verb that makes nothing without one.
    ///
    /// # Errors
    /// Where there can be none: what a killed run leaves could not be removed.
    pub fn need_journal(&self) -> Result<&Journal, Failure> {
        self.open_journal().as_ref().map_err(|why| {
            let what =
                format!("no journal can be kept, and what a killed run leaves could not be removed: {why}");
            Failure::new(Code::Machine, what)
                .help("set SURETY_RUNTIME_DIR to a directory that only you can write")
        })
    }

    /// One line for the user, on standard error.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            tell(&format!("note: {text}"));
        }
    }

    /// One heading of what happens now.
    pub fn step(&self, text: &str) {
        if !self.quiet && !self.json {
            tell(text);
        }
    }

    /// What went wrong, on standard error; with `--json` as a document on standard output too.
    pub fn fail(&self, failure: &Failure) {
        let renderer = if std::io::stderr().is_terminal() && self.color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        if self.json {
            let (what, help) = match &failure.message {
                Message::Words { what, help } => (what.clone(), help.as_deref()),
                Message::Input(diagnostics) => (diagnostics.to_string(), None),
            };
            // On one line, as some verbs have printed lines before. Where that cannot be written, the words below still can.
            let _ = print_line(&error_document(&what, help, failure.code));
        }
        match &failure.message {
            Message::Words { what, help } => {
                tell(&format!("error: {what}"));
                if let Some(help) = help {
                    tell(&format!("  help: {help}"));
                }
            }
            Message::Input(diagnostics) => {
                let text = harmless_at_its_places(&diagnostics.text);
                let name = harmless(&diagnostics.name, false);
                for diagnostic in &diagnostics.list {
                    let (label, message) =
                        (harmless(&diagnostic.label, false), harmless(&diagnostic.message, false));
                    let help = diagnostic.help.as_deref().map(|help| harmless(help, false));
                    let snippet = Snippet::source(text.as_str()).path(&*name).annotation(
                        AnnotationKind::Primary.span(clip(&text, diagnostic.span.clone())).label(&*label),
                    );
                    let mut report = vec![Level::ERROR.primary_title(&*message).element(snippet)];
                    if let Some(help) = &help {
                        report
                            .push(annotate_snippets::Group::with_title(Level::HELP.secondary_title(&**help)));
                    }
                    tell_styled(&renderer.render(&report));
                }
            }
        }
    }

    /// How tables are laid out.
    pub fn style(&self) -> Style {
        Style {
            width: self.width(),
            colour: self.color,
            every_column: self.asked_width.is_none() && !std::io::stdout().is_terminal(),
            verbose: self.verbose,
        }
    }

    /// Prints text on standard output: what every command says there goes through here.
    ///
    /// Whoever reads it may stop before its end, as `head` does. That is no failure: the command goes on, writes its
    /// files and ends in its own code.
    ///
    /// # Errors
    /// A failure when the text cannot be written for another reason, such as a full disk.
    pub fn print(&self, text: &str) -> Result<(), Failure> {
        print(&harmless(text, self.color))
    }

    /// The same for a command that has nothing else to do: `false` when whoever reads it has stopped.
    ///
    /// # Errors
    /// As [`Session::print`].
    pub fn print_to_reader(&self, text: &str) -> Result<bool, Failure> {
        printed(&harmless(text, self.color))
    }

    /// Prints a document that is a line already; `false` when whoever reads it has stopped.
    ///
    /// # Errors
    /// As [`Session::print`].
    pub fn print_json_line(&self, line: &str) -> Result<bool, Failure> {
        printed(&harmless_json(line.to_owned()))
    }

    /// Prints a document on standard output.
    ///
    /// # Errors
    /// As [`Session::print`].
    pub fn print_json(&self, document: &serde_json::Value) -> Result<(), Failure> {
        print_json(document)
    }

    /// Keeps what became of expectations until the document is printed.
    pub fn keep_gates(&self, gates: serde_json::Value) {
        // A command checks its expectations once.
        let _ = self.gates.set(gates);
    }

    /// Prints a report as a document, with what became of expectations where there were any.
    ///
    /// # Errors
    /// As [`Session::print`].
    pub fn print_record(&self, report: &Report<'_>) -> Result<(), Failure> {
        self.print_document(surety_report::json::record_json(report))
    }

    /// Prints a document, with what became of expectations where there were any.
    ///
    /// # Errors
    /// As [`Session::print`].
    pub fn print_document(&self, mut document: serde_json::Value) -> Result<(), Failure> {
        if let (Some(gates), Some(keys)) = (self.gates.get(), document.as_object_mut()) {
            keys.insert("expectations".to_owned(), gates.clone());
        }
        self.print_json(&document)
    }

    /// Prints a report in the form asked for, and writes its page.
    pub fn publish(&self, report: &Report<'_>, running: &Running) -> Result<(), Failure> {
        self.publish_as(report, running.html.as_deref(), || match report.rows {
            [row] => surety_report::table::record(row, &self.style()),
            _ => surety_report::table::compared(report, &self.style()),
        })
    }

    /// The same with a table of the caller's own, and a page where one is asked for.
    pub fn publish_as(
        &self,
        report: &Report<'_>,
        page: Option<&Path>,
        table: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        // Before anything is printed: the document of a failure is the only one then.
        if let Some(path) = page {
            files::write(path, &surety_report::html::page(report))?;
        }
        if self.json {
            self.print_record(report)?;
        } else {
            self.print(&table())?;
        }
        if let Some(path) = page {
            self.step(&format!("page written to {}", path.display()));
        }
        Ok(())
    }

    /// Whether what changes while it is looked at may be shown: on a terminal, and not when told to be quiet.
    pub fn is_live(&self) -> bool {
        !self.quiet && !self.json && std::io::stderr().is_terminal()
    }
}

impl Context for Session {
    fn kernel(&self) -> &RealKernel {
        &self.kernel
    }

    fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    fn journal(&self) -> Option<&Journal> {
        Session::journal(self)
    }

    fn stage(&self, stage: Stage) {
        Session::step(self, &stage.to_string());
    }

    fn step(&self, text: &str) {
        Session::step(self, text);
    }

    fn note(&self, text: &str) {
        Session::note(self, text);
    }

    /// A bar on a terminal.
    fn watch<'a>(&self, label: &str, sink: Option<&'a mut dyn TraceSink>) -> Box<dyn Watch + 'a> {
        let bar = if self.is_live() { ProgressBar::new(0) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("  {msg:24} [{bar:30}] {pos:>3} %");
        bar.set_style(style.expect("the template is well formed").progress_chars("=> "));
        bar.set_length(100);
        bar.set_message(harmless(label, false).into_owned());
        Box::new(Bar { bar, sink, quiet: self.quiet, said: Rc::clone(&self.said) })
    }
}

/// Columns that `--width` asks for, else `COLUMNS`.
fn asked_width(common: &Common) -> Option<usize> {
    let of_shell = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns >= 40);
    common.width.map(usize::from).or_else(of_shell)
}

/// Says something on standard error. Where nobody hears it, nothing is to be done about that.
pub fn tell(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", harmless(text, false));
}

/// The same where what it is made of is harmless, and colours are ours.
fn tell_styled(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Tells why arguments are refused, or the help that was asked for, and ends in the code for that.
pub fn refuse_arguments(error: &clap::Error) -> Code {
    // Help and version are no failure and go to standard output; clap knows.
    if !error.use_stderr() {
        let _ = error.print();
        return Code::Kept;
    }
    let words = error.render().to_string();
    let mut options = std::env::args_os().take_while(|word| word != "--");
    if options.any(|word| word == "--json") {
        let first = words.lines().next().unwrap_or_default();
        let help = words.lines().skip(1).map(str::trim).filter(|line| !line.is_empty());
        let help = Some(help.collect::<Vec<_>>().join("; ")).filter(|help| !help.is_empty());
        let document = error_document(first.trim_start_matches("error: "), help.as_deref(), Code::BadInput);
        let _ = print_line(&document);
    }
    if words.contains(is_obeyed) {
        tell(words.trim_end());
    } else {
        let _ = error.print();
    }
    Code::BadInput
}

/// What a failure is under `--json`.
fn error_document(what: &str, help: Option<&str>, code: Code) -> serde_json::Value {
    serde_json::json!({
        "schema": "surety.error/1",
        "error": { "what": what, "help": help },
        "exit": code as u8,
    })
}

/// Prints a document on one line of standard output.
fn print_line(document: &serde_json::Value) -> Result<(), Failure> {
    print(&harmless_json(format!("{document}\n")))
}

/// Prints a document on standard output.
fn print_json(document: &serde_json::Value) -> Result<(), Failure> {
    print(&harmless_json(format!("{document:#}\n")))
}

fn print(text: &str) -> Result<(), Failure> {
    printed(text).map(drop)
}

/// `false` when whoever reads it has stopped.
fn printed(text: &str) -> Result<bool, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            let said = format!("standard output could not be written: {error}");
            Err(Failure::new(Code::Machine, said).help("make room, or send it elsewhere"))
        }
        Ok(()) => Ok(true),
    }
}

/// Draws on the terminal, where there is one to draw on.
pub fn draw(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// What came of something a killed run left.
fn recovery_in_words(recovered: &Recovered) -> String {
    match recovered {
        Recovered::Entry { owner, entry, result } => {
            let what = match entry.as_ref() {
                Entry::Scheduler { thread, old, .. } => {
                    format!("thread {}'s class, {} before", thread.pid, surety_enforce::describe(old))
                }
                Entry::Affinity { thread, old, .. } => format!("thread {}'s CPUs, {old} before", thread.pid),
                Entry::File { path, old, .. } => format!("{}, {} before", path.display(), old.trim()),
                Entry::Directory { path } | Entry::Scratch { path } => {
                    format!("directory {}", path.display())
                }
                Entry::Group { path } => format!("the programs of group {}", path.display()),
                Entry::TraceInstance { name } => format!("trace instance {name}"),
                Entry::Process { process } => format!("process {}", process.pid),
                Entry::Mount { path, .. } => format!("the mount at {}", path.display()),
                Entry::Marked { mark } => format!("programs marked {mark}"),
                other => format!("{other:?}"),
            };
            match result {
                Ok(Undone::Restored) => {
                    format!("run {} was killed; took back what it left: {what}", owner.pid)
                }
                Ok(_) => format!("run {} was killed; nothing was left to take back of {what}", owner.pid),
                Err(error) => {
                    format!("run {} was killed; {what} could not be taken back: {error}", owner.pid)
                }
            }
        }
        Recovered::Unreadable { owner, line } => {
            format!("line {line} of the journal of run {} is damaged; the others were used", owner.pid)
        }
        Recovered::Refused { name, why } => format!("journal {name} was not touched: {why}"),
        other => format!("{other:?}"),
    }
}

/// A span inside the text, on character borders.
fn clip(text: &str, span: std::ops::Range<usize>) -> std::ops::Range<usize> {
    let border = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = border(span.start);
    start..border(span.end).max(start)
}

/// Shows a run's progress and passes its events on.
struct Bar<'a> {
    bar: ProgressBar,
    sink: Option<&'a mut dyn TraceSink>,
    quiet: bool,
    said: Rc<RefCell<BTreeSet<String>>>,
}

impl Watch for Bar<'_> {
    fn turn_to(&mut self, label: &str) {
        self.bar.set_message(harmless(label, false).into_owned());
        self.bar.set_position(0);
    }
}

impl Observer for Bar<'_> {
    fn progress(&mut self, done: Nanos, total: Nanos) {
        if total.is_positive() {
            self.bar.set_position(done.mul_ratio(100, total.get_unsigned()).get_unsigned());
        }
    }

    fn notice(&mut self, text: &str) {
        if !self.quiet && self.said.borrow_mut().insert(text.to_owned()) {
            self.bar.suspend(|| tell(&format!("note: {text}")));
        }
    }

    fn observes(&mut self, window: (Nanos, Nanos)) {
        if let Some(sink) = &mut self.sink {
            sink.observes(window);
        }
    }

    fn wants_events(&self) -> bool {
        self.sink.is_some()
    }

    fn event(&mut self, event: &Event<'_>) {
        if let Some(sink) = &mut self.sink {
            sink.event(event);
        }
    }
}

impl Drop for Bar<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
