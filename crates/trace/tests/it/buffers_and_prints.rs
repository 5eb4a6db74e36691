//! Several buffers in one file, as instances of the tracer make them, and texts of kernel code: each as trace-cmd reads
//! them.

use std::path::PathBuf;
use std::process::Command;

use crate::support::tracedat::{fixture, reported};
use surety_model::event::{Event, EventKind};
use surety_trace::{Endian, TraceDat, TraceDatContent, TraceReader};
use surety_units::CpuId;

/// The fixture, whose second CPU's pages are moved into a further buffer called `inst`.
fn two_buffers() -> Vec<u8> {
    let mut file = fixture();
    let place = |file: &[u8], tag: &[u8]| file.windows(tag.len()).position(|w| w == tag).unwrap() + tag.len();
    let option = place(&file, b"options  \0");
    let table = place(&file, b"flyrecord\0");
    let end = file.len() as u64;
    // The first option, statistics that nobody misses, becomes the buffer's: where its table is, and its name.
    let length = Endian::Little.u32(&file, option + 2).unwrap() as usize;
    file[option] = 3;
    file[option + 6..option + 6 + length].fill(0);
    file[option + 6..option + 14].copy_from_slice(&end.to_le_bytes());
    file[option + 14..option + 18].copy_from_slice(b"inst");
    let entry = |file: &[u8], cpu: usize| file[table + 16 * cpu..table + 16 * cpu + 16].to_vec();
    let (first, second) = (entry(&file, 0), entry(&file, 1));
    file[table + 24..table + 32].fill(0);
    file.extend(b"flyrecord\0");
    file.extend(&first[..8]);
    file.extend([0; 8]);
    file.extend(second);
    file
}

fn events(file: &[u8], buffer: Option<&str>) -> Vec<String> {
    let mut read = TraceDat::open(file).unwrap();
    if let Some(name) = buffer {
        assert!(read.choose_buffer(name));
    }
    let mut events = Vec::new();
    read.read(&mut |event: &Event<'_>| events.push(format!("{event:?}"))).unwrap();
    events
}

struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        Temporary(std::env::temp_dir().join(format!("surety-{}-{name}.dat", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn each_buffer_is_read_by_its_name() {
    let whole = events(&fixture(), None);
    let file = two_buffers();
    let read = TraceDat::open(&file).unwrap();
    assert_eq!(read.buffers().collect::<Vec<_>>(), ["", "inst"]);
    assert_eq!(TraceReader::unread(&read), ["the further buffer inst"]);
    let (main, further) = (events(&file, None), events(&file, Some("inst")));
    let of = |cpu: &str| whole.iter().filter(|e| e.contains(cpu)).cloned().collect::<Vec<_>>();
    assert_eq!((&main, &further), (&of("cpu: CpuId(0)"), &of("cpu: CpuId(1)")));
    assert!(!main.is_empty() && !further.is_empty());
    assert!(!TraceDat::open(&file).unwrap().choose_buffer("other"));

    // trace-cmd lists all buffers, and makes a file of version 7 of them.
    let (old, new) = (Temporary::new("two-v6"), Temporary::new("two-v7"));
    std::fs::write(&old.0, &file).unwrap();
    let Some(theirs) = reported(&old.0) else { return };
    assert_eq!(theirs.len(), main.len() + further.len());
    let mut convert = Command::new("trace-cmd");
    convert.args(["convert", "--file-version", "7", "-i"]).arg(&old.0).arg("-o").arg(&new.0);
    assert!(convert.output().unwrap().status.success());
    let seven = std::fs::read(&new.0).unwrap();
    assert_eq!(TraceDat::open(&seven).unwrap().version(), 7);
    assert_eq!((events(&seven, None), events(&seven, Some("inst"))), (main, further));
}

#[test]
fn the_only_buffer_with_events_is_read_unasked_and_a_damaged_one_is_told() {
    let mut file = two_buffers();
    let (main, further) = (events(&file, Some("")), events(&file, Some("inst")));
    let table = file.windows(10).position(|w| w == b"flyrecord\0").unwrap() + 10;
    let length = file[table + 8..table + 16].to_vec();
    file[table + 8..table + 16].fill(0);
    assert_eq!(events(&file, None), further);
    file[table + 8..table + 16].copy_from_slice(&length);
    let tag = file.len() - 42;
    file[tag] = b'F';
    assert_eq!(events(&file, None), main);
    let unread = TraceReader::unread(&TraceDat::open(&file).unwrap());
    assert!(
        unread[0].contains(&format!("inst: byte {tag}: neither options nor pages begin here")),
        "{unread:?}"
    );
}

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n";

/// A file of one page: texts of kernel code, the third without arguments.
fn printed() -> Vec<u8> {
    let bprint = format!(
        "name: bprint\nID: 6\nformat:\n{COMMON}\tfield:const char * fmt;\toffset:16;\tsize:8;\tsigned:0;\n\
         \tfield:u32 buf[];\toffset:24;\tsize:0;\tsigned:0;\n\nprint fmt: \"%ps: %s\", (void *)REC->ip, REC->fmt\n"
    );
    let bputs = format!(
        "name: bputs\nID: 14\nformat:\n{COMMON}\tfield:const char * str;\toffset:16;\tsize:8;\tsigned:0;\n\n\
         print fmt: \"%ps: %s\", (void *)REC->ip, REC->str\n"
    );
    let word = |value: i32| value.to_le_bytes().to_vec();
    let long = |value: i64| value.to_le_bytes().to_vec();
    let records = [
        (6u16, 0x1000u64, [word(-7), word(42), word(255), b"eth0\0\0\0\0".to_vec(), long(-1)].concat()),
        (6, 0x1020, [long(1 << 40), word(5), word(7)].concat()),
        (14, 0x1040, Vec::new()),
    ];
    let mut body = Vec::new();
    for (id, address, arguments) in records {
        let mut record = id.to_le_bytes().to_vec();
        record.extend([0, 0]);
        record.extend(77i32.to_le_bytes());
        record.extend(0xffff_ffff_8100_0000u64.to_le_bytes());
        record.extend(address.to_le_bytes());
        record.extend(arguments);
        // Ten nanoseconds after the one before.
        body.extend(((record.len() as u32 / 4) | (10 << 5)).to_le_bytes());
        body.extend(record);
    }
    let mut page = 5_000u64.to_le_bytes().to_vec();
    page.extend((body.len() as u64).to_le_bytes());
    page.extend(body);
    page.resize(4096, 0);
    let header = std::fs::read_to_string(crate::support::fixtures().join("formats/header_page.txt")).unwrap();
    let content = TraceDatContent {
        endian: Endian::Little,
        header_page: &header,
        header_event: crate::support::tracedat::HEADER_EVENT,
        formats: vec![("ftrace:bprint", &bprint), ("ftrace:bputs", &bputs)],
        symbols: "",
        printk_formats: "0x1000 : \"a=%d b=%u c=%x %s %ld\\n\"\n0x1020 : \"%llu|%3d|%x|\\n\"\n0x1040 : \"only text\\n\"\n",
        names: "77 driver\n",
        clock: "mono",
        statistics: Vec::new(),
        pages: vec![(CpuId(0), page)],
    };
    let mut file = Vec::new();
    content.write(&mut file).unwrap();
    file
}

#[test]
fn texts_of_kernel_code_are_those_trace_cmd_prints() {
    let file = printed();
    let mut texts = Vec::new();
    let mut sink = |event: &Event<'_>| {
        let EventKind::Marker { text } = event.kind else { panic!("{event:?}") };
        texts.push(text.to_owned());
    };
    TraceDat::open(&file).unwrap().read(&mut sink).unwrap();
    assert_eq!(texts, ["a=-7 b=42 c=ff eth0 -1", "1099511627776|  5|7|", "only text"]);
    let path = Temporary::new("bprint");
    std::fs::write(&path.0, &file).unwrap();
    let Ok(output) = Command::new("trace-cmd").arg("report").arg(&path.0).output() else {
        eprintln!("SKIPPED: trace-cmd cannot be started; install the package trace-cmd");
        return;
    };
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    let theirs: Vec<&str> = report.lines().filter(|line| line.contains("[000]")).collect();
    assert_eq!(theirs.len(), 3, "{report}");
    for (ours, theirs) in texts.iter().zip(theirs) {
        assert!(theirs.trim_end().ends_with(ours.trim_end()), "{ours}: {theirs}");
    }
}
