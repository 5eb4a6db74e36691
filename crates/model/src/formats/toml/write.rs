//! From a [`Workload`] to the text of a workload file.

use std::fmt::Write as _;

use surety_units::{Bytes, Nanos};

use super::{Comments, FORMAT};
use crate::distribution::TimeDistribution;
use crate::promise::Promise;
use crate::reservation::Reservation;
use crate::workload::*;

/// The whole file.
pub(super) fn workload(workload: &Workload, comments: &Comments) -> String {
    let mut out = Out { text: String::new(), comments };
    out.comment("");
    let _ = writeln!(out.text, "format = {FORMAT}");
    out.optional_text("title", workload.title.as_deref());
    out.optional_time("duration", workload.duration);
    workload.tasks.iter().for_each(|t| task(&mut out, t));
    workload.irqs.iter().for_each(|i| irq(&mut out, i));
    workload.disks.iter().for_each(|d| disk(&mut out, d));
    workload.streams.iter().for_each(|s| stream(&mut out, s));
    workload.startups.iter().for_each(|s| startup(&mut out, s));
    workload.links.iter().for_each(|l| link(&mut out, l));
    workload.flows.iter().for_each(|f| flow(&mut out, f));
    workload.loads.iter().for_each(|l| load(&mut out, l));
    for group in &workload.groups {
        out.header("[[group]]", &group.name);
        out.line("weight", &group.weight.to_string());
        if let Some(weight) = group.io_weight {
            out.line("io-weight", &weight.to_string());
        }
        if let Some(Quota { runtime, period, burst }) = group.quota {
            for (key, time) in [("quota", runtime), ("quota-period", period), ("burst", burst)] {
                out.line(key, &quote(&time.to_exact_string()));
            }
        }
        if group.idle {
            out.line("idle", "true");
        }
        out.optional_text("cpus", group.cpus.map(|cpus| cpus.to_string()).as_deref());
        out.reservation(group.reservation);
        out.optional_text("parent", group.parent.as_deref());
    }
    for chain in &workload.chains {
        out.header("[[chain]]", &chain.name);
        out.line("start", &arrivals(&chain.start));
        let names: Vec<String> = chain.through.iter().map(|n| quote(n)).collect();
        out.line("through", &format!("[{}]", names.join(", ")));
        out.promises(&chain.promises);
    }
    for resource in &workload.resources {
        out.header("[[resource]]", &resource.name);
        if resource.protocol == LockProtocol::Inherit {
            out.line("protocol", "\"inherit\"");
        }
    }
    for event in &workload.events {
        out.header("[[event]]", &event.name);
        out.line("raised", &event.times.to_string());
    }
    vary(&mut out, &workload.vary);
    out.text
}

struct Out<'a> {
    text: String,
    comments: &'a Comments,
}

impl Out<'_> {
    /// The comment on the object at a path, one `#` a line; what TOML does not allow in comments is left out.
    fn comment(&mut self, path: &str) {
        for line in self.comments.get(path).into_iter().flatten() {
            let plain: String = line.chars().filter(|c| !c.is_control()).collect();
            let _ = writeln!(self.text, "{}", format!("# {plain}").trim_end());
        }
    }

    fn header(&mut self, header: &str, name: &str) {
        self.text.push('\n');
        self.comment(&format!("{}.{name}", header.trim_matches(['[', ']'])));
        let _ = writeln!(self.text, "{header}");
        self.line("name", &quote(name));
    }

    fn line(&mut self, key: &str, value: &str) {
        let _ = writeln!(self.text, "{key} = {value}");
    }

    fn quoted(&mut self, key: &str, value: &str) {
        self.line(key, &quote(value));
    }

    fn optional_text(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.quoted(key, value);
        }
    }

    fn optional_time(&mut self, key: &str, value: Option<Nanos>) {
        self.optional_text(key, value.map(Nanos::to_exact_string).as_deref());
    }

    fn optional_number(&mut self, key: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.line(key, &value.to_string());
        }
    }

    fn flag(&mut self, key: &str, value: bool) {
        if value {
            self.line(key, "true");
        }
    }

    fn promises(&mut self, promises: &[Promise]) {
        if promises.is_empty() {
            return;
        }
        let texts: Vec<String> = promises.iter().map(|p| quote(&p.to_string())).collect();
        self.line("promise", &format!("[{}]", texts.join(", ")));
    }

    fn policy(&mut self, policy: PolicySpec) {
        let is_default = matches!(policy, PolicySpec::Fair { .. } | PolicySpec::LatencyNice { .. });
        for (key, value) in policy_keys(policy).into_iter().skip(usize::from(is_default)) {
            self.line(key, &value);
        }
    }

    fn instances(&mut self, key: &str, instances: Instances) {
        match instances {
            Instances::Count(1) => {}
            Instances::Count(count) => self.line(key, &count.to_string()),
            Instances::PerCpu(1) => self.line(key, "\"per-cpu\""),
            Instances::PerCpu(each) => self.quoted(key, &format!("{each} per-cpu")),
        }
    }

    fn reservation(&mut self, of: Option<Reservation>) {
        if let Some(of) = of {
            self.line("reservation", &reservation(of));
        }
    }
}

/// `policy`, and the keys beside it that are not their defaults.
fn policy_keys(policy: PolicySpec) -> Vec<(&'static str, String)> {
    let PolicyParameters { priority, nice, slice, latency_nice } = policy.parameters();
    let word = match priority {
        0 => policy.word().to_owned(),
        _ => format!("{}:{priority}", policy.word()),
    };
    let mut keys = vec![("policy", quote(&word))];
    keys.extend((nice != 0).then(|| ("nice", nice.to_string())));
    keys.extend(slice.map(|slice| ("slice", time(slice))));
    keys.extend(latency_nice.map(|latency_nice| ("latency_nice", latency_nice.to_string())));
    keys
}

/// A reservation as a table.
fn reservation(r: Reservation) -> String {
    let mut parts = vec![
        format!("runtime = {}", time(r.runtime)),
        format!("deadline = {}", time(r.deadline)),
        format!("period = {}", time(r.period)),
    ];
    for (name, set) in [("reclaim", r.reclaim), ("demote", r.demote)] {
        if set {
            parts.push(format!("{name} = true"));
        }
    }
    format!("{{ {} }}", parts.join(", "))
}

/// A TOML string.
fn quote(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn time(value: Nanos) -> String {
    quote(&value.to_exact_string())
}

fn task(out: &mut Out<'_>, task: &Task) {
    out.header("[[task]]", &task.name);
    match task.release {
        Release::Unspecified => {}
        Release::Periodic { period, start, jitter } => {
            out.line("period", &time(period));
            for (key, value) in [("start", start), ("jitter", jitter)] {
                out.optional_time(key, value.is_positive().then_some(value));
            }
        }
        Release::Sporadic { gap } => out.line("gap", &time(gap)),
        Release::BackToBack { start } => {
            out.quoted("release", "back-to-back");
            out.optional_time("start", start.is_positive().then_some(start));
        }
    }
    if let Some(spacing) = &task.spacing {
        out.line("spacing", &distribution(spacing));
    }
    match &task.body {
        TaskBody::Synthetic(Work::Forever) => out.line("work", "\"forever\""),
        TaskBody::Synthetic(Work::Drawn(work)) => out.line("work", &distribution(work)),
        TaskBody::Synthetic(Work::Trace(file)) => out.line("work", &format!("{{ trace = {} }}", quote(file))),
        TaskBody::Phases(phases) => {
            out.line("phases", &phase_list(phases));
        }
        TaskBody::Command(program) => {
            out.quoted("command", &program.line);
            out.optional_text("prepare", program.prepare.as_deref());
            out.optional_text("package", program.package.as_deref());
            rights(out, &program.rights);
            if let Some(ThreadRole { comm, rank }) = &program.worker {
                out.line("worker", &format!("{{ comm = {}, rank = {rank} }}", quote(comm)));
            }
        }
        TaskBody::Match(thread) => {
            let which = match thread {
                ThreadMatch::Named(comm) => format!("comm = {}", quote(comm)),
                ThreadMatch::Thread(pid) => format!("pid = {pid}"),
                ThreadMatch::Process(pid) => format!("process = {pid}"),
                ThreadMatch::Of { task, role: ThreadRole { comm, rank } } => {
                    format!("task = {}, comm = {}, rank = {rank}", quote(task), quote(comm))
                }
            };
            out.line("match", &format!("{{ {which} }}"));
        }
    }
    if task.late == Late::Skip {
        out.line("late", "\"skip\"");
    }
    if task.sleep == Sleep::Relative {
        out.line("sleep", "\"relative\"");
    }
    out.policy(task.policy);
    out.optional_time("timer-slack", task.timer_slack);
    out.optional_text("group", task.group.as_deref());
    out.instances("instances", task.instances);
    out.optional_text("cpus", task.cpus.map(|cpus| cpus.to_string()).as_deref());
    out.optional_number("jobs", task.jobs);
    for (key, clamp) in clamp_keys(task.util) {
        out.line(key, &clamp.to_string());
    }
    if task.together {
        out.line("together", "true");
    }
    out.promises(&task.promises);
    out.reservation(task.reservation);
}

fn rights(out: &mut Out<'_>, rights: &Rights) {
    out.optional_text("user", rights.user.as_deref());
    out.optional_text("keep_capabilities", rights.keep.map(|keep| keep.to_string()).as_deref());
}

fn distribution(distribution: &TimeDistribution) -> String {
    match distribution {
        TimeDistribution::Constant(value) => time(*value),
        TimeDistribution::Uniform { low, high } => {
            format!("{{ kind = \"uniform\", low = {}, high = {} }}", time(*low), time(*high))
        }
        TimeDistribution::Normal { mean, std_dev } => {
            format!("{{ kind = \"normal\", mean = {}, std_dev = {} }}", time(*mean), time(*std_dev))
        }
        TimeDistribution::LogNormal { mean, p99 } => {
            format!("{{ kind = \"lognormal\", mean = {}, p99 = {} }}", time(*mean), time(*p99))
        }
        TimeDistribution::Exponential { mean } => {
            format!("{{ kind = \"exponential\", mean = {} }}", time(*mean))
        }
        TimeDistribution::Empirical(empirical) => {
            let measured = if empirical.is_measured() { ", measured = true" } else { "" };
            if let Some(sequence) = empirical.sequence() {
                let values: Vec<String> = sequence.into_iter().map(time).collect();
                return format!("{{ kind = \"sequence\", values = [{}]{measured} }}", values.join(", "));
            }
            let (values, counts): (Vec<String>, Vec<String>) =
                empirical.pairs().map(|(v, c)| (time(v), c.to_string())).unzip();
            format!(
                "{{ kind = \"empirical\", values = [{}], counts = [{}]{measured} }}",
                values.join(", "),
                counts.join(", ")
            )
        }
    }
}

fn phase_list(phases: &[Phase]) -> String {
    let steps: Vec<String> = phases.iter().map(phase).collect();
    format!("[{}]", steps.join(", "))
}

fn phase(phase: &Phase) -> String {
    let (key, value) = match phase {
        Phase::Busy(span) => ("busy", time(*span)),
        Phase::Timer(Timer { name, period, absolute, shared }) => {
            let mode = if *absolute { ", mode = \"absolute\"" } else { "" };
            let shared = if *shared { ", shared = true" } else { "" };
            ("timer", format!("{}, period = {}{mode}{shared}", quote(name), time(*period)))
        }
        Phase::Await { condition, lock } => {
            ("await", format!("{}, lock = {}", quote(condition), quote(lock)))
        }
        Phase::Notify(name) => ("notify", quote(name)),
        Phase::NotifyAll(name) => ("notify-all", quote(name)),
        Phase::Barrier(name) => ("barrier", quote(name)),
        Phase::Yield => ("yield", "true".to_owned()),
        Phase::Cpus(cpus) => ("cpus", quote(&cpus.map_or_else(|| "all".to_owned(), |cpus| cpus.to_string()))),
        Phase::Become(schedule) => return format!("{{ {} }}", becomes(*schedule)),
        Phase::Clamp(clamp) => {
            let keys = clamp_keys(*clamp).map(|(key, clamp)| format!("{key} = {clamp}"));
            return format!("{{ {} }}", keys.collect::<Vec<_>>().join(", "));
        }
        Phase::Group(group) => ("group", quote(group.as_deref().unwrap_or(super::phases::ROOT))),
        Phase::Loop { times, phases } => {
            let times = times.map_or_else(|| quote("forever"), |times| times.to_string());
            ("loop", format!("{times}, phases = {}", phase_list(phases)))
        }
        Phase::Fill(fill) => {
            let quoted = |bytes: Bytes| quote(&bytes.to_exact_string());
            let file = fill.file.as_ref().map(|file| format!(", file = {}", quote(file)));
            let buffer = (fill.buffer != Fill::BUFFER).then(|| format!(", buffer = {}", quoted(fill.buffer)));
            let takes = fill.takes.map(|takes| format!(", takes = {}", time(takes)));
            let more: String = [file, buffer, takes].into_iter().flatten().collect();
            (fill.word(), format!("{}{more}", quoted(fill.bytes)))
        }
        Phase::Run(work) => ("run", distribution(work)),
        Phase::Sleep(span) => ("sleep", time(*span)),
        Phase::Lock(name) => ("lock", quote(name)),
        Phase::Unlock(name) => ("unlock", quote(name)),
        Phase::Wait(name) => ("wait", quote(name)),
        Phase::Signal(name) => ("signal", quote(name)),
    };
    format!("{{ {key} = {value} }}")
}

/// The keys of clamps that are given.
fn clamp_keys(clamp: UtilClamp) -> impl Iterator<Item = (&'static str, u32)> {
    let given = |(key, clamp): (_, Option<u32>)| clamp.map(|clamp| (key, clamp));
    [("util-min", clamp.min), ("util-max", clamp.max)].into_iter().filter_map(given)
}

/// The keys of a step that changes how its thread is scheduled.
fn becomes(schedule: Schedule) -> String {
    let mut keys = policy_keys(schedule.policy);
    keys.extend(schedule.reservation.map(|of| ("reservation", reservation(of))));
    keys.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join(", ")
}

fn arrivals(arrivals: &Arrivals) -> String {
    match arrivals {
        Arrivals::Periodic { period } => format!("{{ kind = \"periodic\", period = {} }}", time(*period)),
        Arrivals::Sporadic { gap } => format!("{{ kind = \"sporadic\", gap = {} }}", time(*gap)),
        Arrivals::Poisson { rate } => {
            format!("{{ kind = \"poisson\", rate = {} }}", quote(&rate.to_exact_string()))
        }
        Arrivals::Closed { outstanding, service } => {
            format!("{{ kind = \"closed\", outstanding = {outstanding}, service = {} }}", time(*service))
        }
    }
}

fn irq(out: &mut Out<'_>, irq: &Irq) {
    out.header("[[irq]]", &irq.name);
    out.optional_text("device", irq.device.as_deref());
    out.line("arrivals", &arrivals(&irq.arrivals));
    out.line("work", &distribution(&irq.work));
    out.optional_time("hard", irq.hard);
    out.optional_number("buffer", irq.buffer);
    out.promises(&irq.promises);
    out.reservation(irq.reservation);
}

fn disk(out: &mut Out<'_>, disk: &Disk) {
    out.text.push('\n');
    out.comment(&format!("disk.{}", disk.name));
    let _ = writeln!(out.text, "[disk.{}]", quote(&disk.name));
    out.optional_text("make", disk.make.map(|b| b.to_exact_string()).as_deref());
    out.optional_text("model", disk.model.as_deref());
    out.optional_text("scheduler", disk.scheduler.as_deref());
    if let Some(depth) = disk.depth {
        out.line("depth", &depth.to_string());
    }
    out.optional_text("request", disk.request.map(|b| b.to_exact_string()).as_deref());
    out.optional_time("wbt", disk.wbt);
    out.optional_text("best-effort", disk.best_effort.map(|rate| rate.to_exact_string()).as_deref());
    if let Some(journal) = disk.journal {
        out.line("journal", &journal.to_string());
    }
    out.optional_text("on", disk.on.as_deref());
    io_priority(out, disk.io_priority);
    out.optional_text("read-ahead", disk.read_ahead.as_deref());
    out.optional_text("group", disk.group.as_deref());
    if !disk.tunables.is_empty() {
        let all: Vec<String> =
            disk.tunables.iter().map(|(name, value)| format!("{} = {value}", quote(name))).collect();
        out.line("tunables", &format!("{{ {} }}", all.join(", ")));
    }
    if !disk.faults.is_empty() {
        let all: Vec<String> = disk.faults.iter().map(fault).collect();
        out.line("faults", &format!("[{}]", all.join(", ")));
    }
}

fn fault(fault: &Fault) -> String {
    let (at, bytes) = (quote(&fault.at.to_exact_string()), quote(&fault.bytes.to_exact_string()));
    format!("{{ at = {at}, bytes = {bytes}, fails = {} }}", quote(fault.fails.word()))
}

fn io_priority(out: &mut Out<'_>, priority: Option<IoPriority>) {
    out.optional_text("io-priority", priority.map(|priority| priority.to_string()).as_deref());
}

fn stream(out: &mut Out<'_>, stream: &Stream) {
    out.header("[[stream]]", &stream.name);
    if stream.count != 1 {
        out.line("count", &stream.count.to_string());
    }
    out.optional_text("disk", stream.disk.as_deref());
    io_priority(out, stream.io_priority);
    out.optional_text("group", stream.group.as_deref());
    match &stream.file {
        StreamFile::Make(size) => {
            out.line("file", &format!("{{ make = {} }}", quote(&size.to_exact_string())))
        }
        StreamFile::Path(path) => out.quoted("file", path),
    }
    out.quoted("rate", &stream.rate.to_exact_string());
    let size = stream.access.map(|b| quote(&b.to_exact_string()));
    match (stream.direction, size) {
        (Direction::Read, None) => {}
        (Direction::Read, Some(size)) => out.line("read", &size),
        (Direction::Write, size) => out.line("write", size.as_deref().unwrap_or("true")),
    }
    out.optional_time("jitter", stream.jitter);
    out.optional_text("buffer", stream.buffer.map(|b| b.to_exact_string()).as_deref());
    out.optional_text("batch", stream.batch.map(|b| b.to_exact_string()).as_deref());
    if stream.overlap {
        out.line("overlap", "true");
    }
    out.optional_time("bound", stream.bound);
    if stream.mode != BatchMode::default() {
        out.quoted("mode", stream.mode.word());
    }
    out.promises(&stream.promises);
}

fn startup(out: &mut Out<'_>, startup: &Startup) {
    out.header("[[startup]]", &startup.name);
    match &startup.body {
        StartupBody::Command(command) => out.quoted("command", command),
        StartupBody::Replay(file) => out.quoted("replay", file),
    }
    out.optional_text("prepare", startup.prepare.as_deref());
    rights(out, &startup.rights);
    match &startup.ready {
        Ready::Exit => {}
        Ready::Stdout(text) => out.quoted("ready", &format!("stdout:{text}")),
        Ready::Socket(path) => out.quoted("ready", &format!("socket:{path}")),
    }
    out.flag("cold", startup.cold);
    if startup.repeat != 1 {
        out.line("repeat", &startup.repeat.to_string());
    }
    out.optional_time("gap", Some(startup.gap).filter(|gap| *gap != Startup::GAP));
    out.optional_time("timeout", startup.timeout);
    out.optional_text("disk", startup.disk.as_deref());
    io_priority(out, startup.io_priority);
    out.optional_text("group", startup.group.as_deref());
    out.promises(&startup.promises);
}

fn link(out: &mut Out<'_>, link: &Link) {
    out.text.push('\n');
    out.comment(&format!("link.{}", link.name));
    let _ = writeln!(out.text, "[link.{}]", quote(&link.name));
    out.quoted("rate", &link.rate.to_exact_string());
    out.quoted("scheduler", &link.scheduler);
    out.optional_text("quantum", link.quantum.map(|b| b.to_exact_string()).as_deref());
}

fn flow(out: &mut Out<'_>, flow: &Flow) {
    out.header("[[flow]]", &flow.name);
    out.quoted("link", &flow.link);
    for (key, value) in [("count", flow.count), ("weight", flow.weight)] {
        out.optional_number(key, (value != 1).then_some(u64::from(value)));
    }
    out.quoted("packet", &flow.packet.to_exact_string());
    out.optional_text("size", flow.size.map(|b| b.to_exact_string()).as_deref());
    out.line("arrivals", &arrivals(&flow.arrivals));
    if let Some(ServiceCurve { first, bend, then }) = flow.curve {
        let (first, then) = (quote(&first.to_exact_string()), quote(&then.to_exact_string()));
        out.line("curve", &format!("{{ first = {first}, bend = {}, then = {then} }}", time(bend)));
    }
    out.optional_time("start", flow.start.is_positive().then_some(flow.start));
    out.promises(&flow.promises);
}

fn load(out: &mut Out<'_>, load: &Load) {
    out.header("[[load]]", &load.name);
    out.quoted("kind", load.kind.word());
    out.instances("count", load.count);
    out.policy(load.policy);
    out.optional_text("group", load.group.as_deref());
    out.optional_text("size", load.size.map(|b| b.to_exact_string()).as_deref());
    out.optional_text("block", load.block.map(|b| b.to_exact_string()).as_deref());
    out.optional_text("rate", load.rate.map(|r| r.to_exact_string()).as_deref());
    out.optional_text("disk", load.disk.as_deref());
    out.flag("direct", load.direct);
    out.flag("random", load.random);
    io_priority(out, load.io_priority);
    out.optional_time("period", load.period);
    out.optional_time("message-cost", load.message_cost);
    out.flag("once", load.once);
    out.optional_text("command", load.command.as_deref());
    rights(out, &load.rights);
    out.promises(&load.promises);
}

fn vary(out: &mut Out<'_>, vary: &Vary) {
    if vary.is_empty() {
        return;
    }
    out.text.push_str("\n[vary]\n");
    for (path, values) in &vary.product {
        let values: Vec<String> = values.iter().map(vary_value).collect();
        out.line(&quote(path), &format!("[{}]", values.join(", ")));
    }
    if !vary.rows.is_empty() {
        let rows: Vec<String> = vary
            .rows
            .iter()
            .map(|row| {
                let pairs: Vec<String> = row
                    .iter()
                    .map(|(path, value)| format!("{} = {}", quote(path), vary_value(value)))
                    .collect();
                format!("{{ {} }}", pairs.join(", "))
            })
            .collect();
        out.line("rows", &format!("[{}]", rows.join(", ")));
    }
}

fn vary_value(value: &VaryValue) -> String {
    match value {
        VaryValue::Text(text) => quote(text),
        VaryValue::Integer(number) => number.to_string(),
        VaryValue::Boolean(yes) => yes.to_string(),
    }
}
