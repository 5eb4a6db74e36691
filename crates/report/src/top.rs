//! [`screen`]: one interval of threads and CPUs as lines of text: CPUs, what is missing, reservations, threads.
//!
//! The lines are a function of the snapshot and the view. Columns that have no room go, the least important first; no line is wider
//! than the style says.

use std::cmp::Reverse;

use surety_model::top::{CpuNow, Scheduling, Snapshot, ThreadNow, Traced};
use surety_units::Nanos;

use crate::quantity::number_of;
use crate::text::{Style, Tone, clean, columns, cut, pad, wrap};

/// What threads are ordered by, most first; names and ids ascend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Longest wait for a CPU; where that is not traced, time waited.
    #[default]
    Latency,
    /// Time waited.
    Wait,
    /// Deadlines and limits missed, then the longest wait.
    Missed,
    /// CPU time.
    Cpu,
    /// How often the thread got a CPU.
    Switches,
    Name,
    Pid,
}

impl Sort {
    /// All, in the order in which a screen offers them.
    pub const ALL: [Sort; 7] =
        [Sort::Latency, Sort::Wait, Sort::Missed, Sort::Cpu, Sort::Switches, Sort::Name, Sort::Pid];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Sort::Latency => "latency",
            Sort::Wait => "wait",
            Sort::Missed => "missed",
            Sort::Cpu => "cpu",
            Sort::Switches => "switches",
            Sort::Name => "name",
            Sort::Pid => "pid",
        }
    }

    fn order(self, threads: &mut [&ThreadNow]) {
        let longest = |t: &ThreadNow| t.traced.as_ref().map_or(Nanos::ZERO, |traced| traced.wait_max);
        let missed = |t: &ThreadNow| t.traced.as_ref().map_or(0, |traced| traced.missed);
        match self {
            Sort::Latency => threads.sort_by_key(|t| (Reverse((longest(t), t.waited)), t.tid)),
            Sort::Wait => threads.sort_by_key(|t| (Reverse(t.waited), t.tid)),
            Sort::Missed => threads.sort_by_key(|t| (Reverse((missed(t), longest(t))), t.tid)),
            Sort::Cpu => threads.sort_by_key(|t| (Reverse(t.run), t.tid)),
            Sort::Switches => threads.sort_by_key(|t| (Reverse(t.switches), t.tid)),
            Sort::Name => threads.sort_by(|a, b| (&a.name, a.tid).cmp(&(&b.name, b.tid))),
            Sort::Pid => threads.sort_by_key(|t| (t.pid, t.tid)),
        }
    }
}

/// How a snapshot is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    pub sort: Sort,
    /// Empty: all threads.
    pub filter: String,
    /// Lines there is room for; `None`: as many as there are.
    pub lines: Option<usize>,
}

/// Whether a filter means this thread: a number is the id of it or of its process, anything else a part of its name, in any case.
pub fn is_meant(filter: &str, thread: &ThreadNow) -> bool {
    if filter.is_empty() {
        return true;
    }
    let is_id = filter.parse().is_ok_and(|id: i32| id == thread.tid.0 || id == thread.pid.0);
    is_id || thread.name.to_lowercase().contains(&filter.to_lowercase())
}

/// The lines of a snapshot, without line ends.
pub fn screen(snapshot: &Snapshot, view: &View, style: &Style) -> Vec<String> {
    let width = style.columns();
    let room = view.lines.unwrap_or(usize::MAX);
    let mut lines = vec![style.paint(Tone::Strong, &cut(&title(snapshot, view), width))];
    lines.extend(cpus(&snapshot.cpus, style).into_iter().take(room / 4));
    for text in &snapshot.missing {
        // One line where lines are few.
        let text = format!("missing: {}", clean(text));
        let wrapped = wrap(&text, width);
        let shown = if view.lines.is_some() { &wrapped[..wrapped.len().min(2)] } else { &wrapped[..] };
        lines.extend(shown.iter().map(|line| style.paint(Tone::Open, line)));
    }
    if snapshot.lost > 0 {
        let text = format!("{} lost so far: waits are too short", number_of(snapshot.lost, "event"));
        lines.push(style.paint(Tone::Open, &cut(&text, width)));
    }
    let mut threads: Vec<&ThreadNow> =
        snapshot.threads.iter().filter(|thread| is_meant(&view.filter, thread)).collect();
    view.sort.order(&mut threads);
    let reserved: Vec<&ThreadNow> =
        threads.iter().copied().filter(|thread| thread.reservation.is_some()).collect();
    if !reserved.is_empty() {
        let most = (room / 3).max(3);
        let table = table(&reserved, &reservation_columns(snapshot), style);
        lines.extend(limited(table, most, reserved.len(), style));
    }
    // What neither ran nor waited stands with the reservations, or is a realtime thread at rest: after those that did something.
    let (busy, idle): (Vec<_>, Vec<_>) = threads
        .into_iter()
        .filter(|thread| thread.reservation.is_none())
        .partition(|thread| thread.switches > 0 || thread.run.is_positive() || waits(thread));
    let all: Vec<&ThreadNow> = busy.into_iter().chain(idle).collect();
    let most = room.saturating_sub(lines.len()).max(2);
    let table = table(&all, &thread_columns(snapshot, width), style);
    lines.extend(limited(table, most, all.len(), style));
    lines.truncate(room);
    lines
}

fn waits(thread: &ThreadNow) -> bool {
    thread.waited.is_positive() || thread.traced.as_ref().is_some_and(|traced| traced.wait_max.is_positive())
}

/// A table's lines, its titles first, with the last line saying what has no room.
fn limited(mut table: Vec<String>, most: usize, count: usize, style: &Style) -> Vec<String> {
    if table.len() > most {
        table.truncate(most.saturating_sub(1));
        let left = count.saturating_sub(table.len().saturating_sub(1));
        table.push(style.paint(Tone::Faint, &format!("... {left} more")));
    }
    table
}

fn title(snapshot: &Snapshot, view: &View) -> String {
    let second = snapshot.unix_ns.div_euclid(1_000_000_000).rem_euclid(86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let filter = match view.filter.as_str() {
        "" => String::new(),
        filter => format!(", only {}", clean(filter)),
    };
    format!(
        "{hour:02}:{minute:02}:{second:02} UTC  {} in {}, {} listed, by {}{filter}",
        number_of(snapshot.threads_seen, "thread"),
        seconds(snapshot.interval),
        snapshot.threads.len(),
        view.sort.word(),
    )
}

fn seconds(time: Nanos) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// All CPUs, as many in a line as there is room for.
fn cpus(cpus: &[CpuNow], style: &Style) -> Vec<String> {
    let digits = cpus.iter().map(|cpu| cpu.cpu.to_string().len()).max().unwrap_or(1);
    let cell = |cpu: &CpuNow| {
        let text = format!(
            "CPU {:>digits$} {:5.1} % steal {:4.1}",
            cpu.cpu.to_string(),
            cpu.busy * 100.0,
            cpu.stolen * 100.0
        );
        let tone = match cpu.stolen {
            stolen if stolen >= 0.01 => Tone::Bad,
            _ => Tone::Plain,
        };
        (columns(&text), style.paint(tone, &text))
    };
    let cells: Vec<(usize, String)> = cpus.iter().map(cell).collect();
    let each = cells.iter().map(|(width, _)| width + 3).max().unwrap_or(1);
    let in_line = ((style.columns() + 3) / each).max(1);
    let joined = |cells: &[(usize, String)]| {
        cells.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("   ")
    };
    cells.chunks(in_line).map(joined).collect()
}

/// What a thread's cell says, and how it is meant.
type CellOf<'a> = Box<dyn Fn(&ThreadNow) -> (String, Tone) + 'a>;

/// A column of threads.
struct Column<'a> {
    title: &'a str,
    width: usize,
    is_number: bool,
    cell: CellOf<'a>,
}

impl<'a> Column<'a> {
    fn number(title: &'a str, width: usize, cell: impl Fn(&ThreadNow) -> String + 'a) -> Column<'a> {
        Column { title, width, is_number: true, cell: Box::new(move |t| (cell(t), Tone::Plain)) }
    }

    fn words(title: &'a str, width: usize, cell: impl Fn(&ThreadNow) -> String + 'a) -> Column<'a> {
        Column { title, width, is_number: false, cell: Box::new(move |t| (cell(t), Tone::Plain)) }
    }

    fn toned(mut self, tone: impl Fn(&ThreadNow) -> Tone + 'a) -> Column<'a> {
        let cell = self.cell;
        self.cell = Box::new(move |thread| (cell(thread).0, tone(thread)));
        self
    }
}

/// Titles, then a line for each thread. Columns beyond the width are left out.
fn table(threads: &[&ThreadNow], all: &[Column<'_>], style: &Style) -> Vec<String> {
    let mut shown = all.len();
    let total = |shown: usize| all[..shown].iter().map(|c| c.width + 1).sum::<usize>().saturating_sub(1);
    while shown > 1 && total(shown) > style.columns() {
        shown -= 1;
    }
    let line = |cells: &mut dyn Iterator<Item = (String, Tone)>| {
        let mut out = String::new();
        for (column, (text, tone)) in all[..shown].iter().zip(cells) {
            if !out.is_empty() {
                out.push(' ');
            }
            out += &style.paint(tone, &pad(&cut(&text, column.width), column.width, column.is_number));
        }
        out.trim_end().to_owned()
    };
    let mut lines = vec![line(&mut all.iter().map(|column| (column.title.to_owned(), Tone::Faint)))];
    lines.extend(threads.iter().map(|thread| line(&mut all.iter().map(|column| (column.cell)(thread)))));
    lines
}

/// Milliseconds with four digits at most.
fn ms(time: Nanos) -> String {
    let value = time.as_millis_f64();
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v < 9.9995 => format!("{value:.3}"),
        v if v < 99.995 => format!("{value:.2}"),
        v if v < 999.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn percent(part: Nanos, whole: Nanos) -> String {
    match whole.is_positive() {
        true => format!("{:.1}", part.get() as f64 / whole.get() as f64 * 100.0),
        false => "-".to_owned(),
    }
}

fn class(scheduling: &Scheduling) -> String {
    match scheduling {
        Scheduling::Fair { nice: 0 } => "fair".to_owned(),
        Scheduling::Fair { nice } => format!("ni{nice}"),
        Scheduling::Batch { .. } => "batch".to_owned(),
        Scheduling::Idle => "idle".to_owned(),
        Scheduling::Fifo { priority } => format!("fifo{priority}"),
        Scheduling::RoundRobin { priority } => format!("rr{priority}"),
        Scheduling::Deadline { .. } => "dl".to_owned(),
        Scheduling::Ext { .. } => "ext".to_owned(),
        _ => "-".to_owned(),
    }
}

fn of_trace(cell: impl Fn(&Traced) -> Option<String>) -> impl Fn(&ThreadNow) -> String {
    move |thread| thread.traced.as_ref().and_then(&cell).unwrap_or_else(|| "-".to_owned())
}

fn missed(thread: &ThreadNow) -> Tone {
    let is_missed = thread.traced.as_ref().is_some_and(|traced| traced.missed > 0);
    if is_missed { Tone::Bad } else { Tone::Plain }
}

/// For which part of the wait one had the CPU, and who: the one that had it longest.
fn instead(traced: &Traced) -> Option<String> {
    let first = traced.instead.first()?;
    let told: i64 = traced.instead.iter().map(|one| one.time.get()).sum();
    let part = first.time.get() as f64 / told.max(1) as f64 * 100.0;
    let name = if first.tid.0 == 0 { "(idle)".to_owned() } else { clean(&first.name) };
    Some(match part {
        99.5.. => name,
        part => format!("{part:.0}% {name}"),
    })
}

fn thread_columns(snapshot: &Snapshot, width: usize) -> Vec<Column<'_>> {
    let interval = snapshot.interval;
    let mut columns = vec![
        Column::number("TID", 7, |t| t.tid.to_string()),
        Column::words("NAME", if width >= 100 { 15 } else { 12 }, |t| clean(&t.name)),
        Column::words("CLASS", 6, |t| class(&t.scheduling)).toned(|t| match t.scheduling.is_realtime() {
            true => Tone::Strong,
            false => Tone::Plain,
        }),
        Column::number("CPU%", 5, move |t| percent(t.run, interval)),
        Column::number("WAITms", 6, |t| ms(t.waited)),
    ];
    if !snapshot.is_traced {
        columns.push(Column::number("SWITCHES", 8, |t| t.switches.to_string()));
        columns.push(Column::number("WAIT/SWITCH ms", 14, |t| match t.switches {
            0 => "-".to_owned(),
            switches => ms(Nanos::new(t.waited.get() / i64::try_from(switches).unwrap_or(i64::MAX))),
        }));
        return columns;
    }
    columns.extend([
        Column::number("MAXms", 6, of_trace(|t| Some(ms(t.wait_max)))).toned(missed),
        Column::number("LATp99", 6, of_trace(|t| t.latency_p99.map(ms))),
        Column::number("LATmax", 6, of_trace(|t| t.latency_max.map(ms))),
        Column::number("MISS", 4, of_trace(|t| Some(t.missed.to_string()))).toned(missed),
    ]);
    let used: usize = columns.iter().map(|column| column.width + 1).sum();
    let left = width.saturating_sub(used).clamp(10, 24);
    columns.push(Column::words("RAN INSTEAD", left, of_trace(instead)));
    columns.push(Column::number("SWITCHES", 8, |t| t.switches.to_string()));
    columns
}

fn reservation_columns(snapshot: &Snapshot) -> Vec<Column<'_>> {
    let parameters = |t: &ThreadNow| match t.scheduling {
        Scheduling::Deadline { runtime, deadline, period } => {
            format!("{}/{}/{}", ms(runtime), ms(deadline), ms(period))
        }
        _ => "-".to_owned(),
    };
    let of_use = |cell: fn(&surety_model::top::Use) -> Option<String>| {
        move |t: &ThreadNow| t.reservation.as_ref().and_then(cell).unwrap_or_else(|| "-".to_owned())
    };
    let mut columns = vec![
        Column::number("TID", 7, |t| t.tid.to_string()),
        Column::words("RESERVATION", 12, |t| clean(&t.name)),
        Column::words("RUNTIME/DEADLINE/PERIOD ms", 26, parameters),
        Column::number("USED%", 6, of_use(|now| Some(format!("{:.1}", now.used * 100.0)))),
    ];
    if snapshot.is_traced {
        columns.push(Column::number("SLACKms", 7, of_use(|now| now.slack_min.map(ms))).toned(|t| {
            let slack = t.reservation.as_ref().and_then(|now| now.slack_min);
            if slack.is_some_and(|slack| slack < Nanos::ZERO) { Tone::Bad } else { Tone::Plain }
        }));
        columns.push(Column::number("MISS", 4, of_trace(|t| Some(t.missed.to_string()))).toned(missed));
        columns.push(Column::number("MAXms", 6, of_trace(|t| Some(ms(t.wait_max)))));
    }
    columns
}

#[cfg(test)]
mod tests {
    use surety_model::top::{Instead, SCHEMA, Use};
    use surety_units::{CpuId, Tid};

    use super::*;

    fn thread(tid: i32, name: &str, run_ms: i64, waited_ms: i64) -> ThreadNow {
        let [run, waited] = [run_ms, waited_ms].map(Nanos::from_millis);
        let hog = Instead { tid: Tid(7), name: "hog".to_owned(), time: waited };
        let idle = Instead { tid: Tid(0), name: "swapper/0".to_owned(), time: Nanos::ZERO };
        let traced = Traced {
            wakeups: 3,
            latency_p99: Some(waited),
            latency_max: Some(waited),
            wait_max: waited,
            missed: u64::from(waited_ms > 100),
            response_max: Some(waited + run),
            instead: vec![hog, idle],
        };
        ThreadNow {
            pid: Tid(tid / 10 * 10),
            tid: Tid(tid),
            name: name.to_owned(),
            scheduling: Scheduling::Fair { nice: 0 },
            run,
            waited,
            switches: 5,
            traced: Some(traced),
            reservation: None,
        }
    }

    fn snapshot() -> Snapshot {
        let ms = Nanos::from_millis;
        let mut player = thread(21, "player", 240, 2);
        player.scheduling = Scheduling::Deadline { runtime: ms(10), deadline: ms(40), period: ms(40) };
        player.reservation = Some(Use { supply: ms(250), used: 0.96, slack_min: Some(ms(-2)) });
        let threads = vec![thread(11, "first", 300, 20), player, thread(31, "esc\x1b[2J", 5, 400)];
        let cpu = |cpu| CpuNow { cpu: CpuId(cpu), busy: 0.5, stolen: 0.02 };
        Snapshot {
            schema: SCHEMA.to_owned(),
            unix_ns: (86_400 + 3_723) * 1_000_000_000,
            interval: ms(1000),
            threads_seen: 120,
            is_traced: true,
            lost: 0,
            late: ms(1),
            own: ms(3),
            missing: vec![
                "one thing, which needs a long sentence to say so that it must be broken".to_owned(),
            ],
            cpus: (0..9).map(cpu).collect(),
            threads,
        }
    }

    #[test]
    fn a_screen_has_the_width_and_the_lines_it_is_given() {
        for (width, lines) in [(80, 24), (80, 8), (40, 10), (132, 50), (60, 5)] {
            for colour in [false, true] {
                let style = Style { colour, ..Style::plain(width) };
                let screen = screen(&snapshot(), &View { lines: Some(lines), ..View::default() }, &style);
                assert!(screen.len() <= lines, "{width}x{lines}: {screen:#?}");
                assert!(colour || screen.iter().all(|line| columns(line) <= width), "{screen:#?}");
                assert!(!screen.iter().any(|line| line.contains("\x1b[2J")));
            }
        }
    }

    #[test]
    fn worst_first_reservations_apart_and_who_ran_instead() {
        let lines = screen(&snapshot(), &View::default(), &Style::plain(80));
        let at = |word: &str| lines.iter().position(|line| line.contains(word)).unwrap_or(usize::MAX);
        assert!(at("player") < at("esc") && at("esc") < at("first"), "{lines:#?}");
        assert!(lines[0].starts_with("01:02:03 UTC  120 threads in 1.00 s"), "{}", lines[0]);
        let player = &lines[at("player")];
        assert!(player.contains("10.00/40.00/40.00") && player.contains("96.0"), "{player}");
        assert!(player.contains("-2.000"), "{player}");
        assert!(lines[at("esc")].ends_with("hog"), "{}", lines[at("esc")]);
    }

    #[test]
    fn a_filter_is_an_id_or_a_part_of_a_name() {
        for (filter, found) in [("", 3), ("FIRST", 1), ("20", 1), ("21", 1), ("9", 0), ("nobody", 0)] {
            let snapshot = snapshot();
            let is_meant = snapshot.threads.iter().filter(|thread| is_meant(filter, thread));
            assert_eq!(is_meant.count(), found, "{filter}");
        }
    }

    #[test]
    fn milliseconds_have_four_digits_at_most() {
        for (ns, text) in [
            (0, "0"),
            (1_234, "0.001"),
            (9_999_900, "10.00"),
            (99_996_000, "100.0"),
            (999_960_000, "1000"),
            (-2_000_000, "-2.000"),
        ] {
            assert_eq!(ms(Nanos::new(ns)), text);
        }
    }
}
