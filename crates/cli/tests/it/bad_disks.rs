//! Bad input of disks: each mistake in a workload or in a profile beside it is told with file, line and column, and what to do.

use crate::common::{errors, surety};

const READERS: &str = "[[load]]\nname = \"r\"\nkind = \"readers\"\ndisk = \"d\"\n";
const STREAM: &str = "[[stream]]\nname = \"s\"\ndisk = \"d\"\nrate = \"1MB/s\"\n";

/// What a disk has (from line 3 on), what uses it, and what the message holds.
const CASES: &[(&str, &str, &[&str])] = &[
    (
        "scheduler = \"nonsense\"",
        READERS,
        &["w.toml:3:13", "disk.d.scheduler", "use one of none, mq-deadline"],
    ),
    ("scheduler = \"mq-dedline\"", READERS, &["w.toml:3:13", "did you mean `mq-deadline`?"]),
    ("model = \"nonsense\"", READERS, &["w.toml:3:9", "no model `nonsense`", "FILE.toml", "hdd-7200"]),
    ("model = \"hdd-2005\"", READERS, &["w.toml:3:9", "did you mean `hdd-2004`?"]),
    ("model = \"lost.toml\"", READERS, &["w.toml:3:9", "`lost.toml` was not given", "beside the workload"]),
    ("model = \"bad.toml\"", READERS, &["w.toml:3:9", "bad.toml:7:8", "`size`"]),
    (
        "scheduler = \"none\"\ntunables = { low_latency = 0 }",
        READERS,
        &["w.toml:4:14", "bfq has one of that name", "`none` has none at all", "scheduler = \"bfq\""],
    ),
    (
        "scheduler = \"kyber\"\ntunables = { read_lat_nsec = 1, low_latency = 0 }",
        READERS,
        &["w.toml:4:33", "bfq has one of that name", "`kyber` has read_lat_nsec, write_lat_nsec"],
    ),
    (
        "tunables = { slice_idle = 0 }",
        READERS,
        &["w.toml:3:14", "`mq-deadline`, which a disk without `scheduler` has", "bfq, cfq have one"],
    ),
    (
        "scheduler = \"bfq\"\ntunables = { low_latensy = 0 }",
        READERS,
        &["4:14", "did you mean `low_latency`?"],
    ),
    ("scheduler = \"bfq\"\ntunables = { low_latency = 2 }", READERS, &["w.toml:4:14", "outside 0 to 1"]),
    ("scheduler = \"bfq\"\ntunables = { low_latency = -1 }", READERS, &["w.toml:4:28", "0 or more"]),
    ("model = \"hdd-2004\"", "size = \"500GB\"\n", &["w.toml:8:8", "500.0 GB", "has 40.03 GB"]),
    ("model = \"hdd-2004\"", "size = \"15GB\"\ncount = 3\n", &["w.toml:8:8", "of which 10.03 GB are left"]),
    ("model = \"hdd-2004\"", "count = 1000\n", &["w.toml:5:8", "load.r.size", "files smaller or fewer"]),
    ("model = \"hdd-2004\"", "block = \"0B\"\n", &["w.toml:8:9", "more than nothing", "leave `block` out"]),
    ("model = \"hdd-2004\"", "block = \"5GB\"\n", &["w.toml:8:9", "at most `size`"]),
    ("model = \"hdd-2004\"", "file = { make = \"500GB\" }\n", &["w.toml:8:17", "has 40.03 GB"]),
    ("model = \"hdd-2004\"", "file = { make = \"16EB\" }\n", &["w.toml:8:17", "use one of B, kB"]),
    ("model = \"hdd-2004\"", "file = { make = \"1000000TB\" }\n", &["w.toml:8:17", "beyond the end"]),
    (
        "model = \"hdd-2004\"",
        "file = { make = \"30GB\" }\ncount = 2\n",
        &["w.toml:8:17", "10.03 GB are left"],
    ),
    ("model = \"hdd-2004\"", "file = { make = \"1kB\" }\n", &["w.toml:8:17", "smaller than one access"]),
    ("model = \"hdd-2004\"", "file = { make = \"1MB\" }\nread = \"2GiB\"\n", &["w.toml:9:8", "one access"]),
    ("model = \"hdd-2004\"", "file = { make = \"1MB\" }\nbuffer = \"1kB\"\n", &["w.toml:9:10", "one access"]),
    (
        "model = \"hdd-2004\"",
        "file = { make = \"1MB\" }\nbatch = \"2MiB\"\n",
        &["w.toml:9:9", "than its file"],
    ),
    (
        "model = \"hdd-2004\"\n[disk.a]\non = \"d\"\nmake = \"100GB\"",
        READERS,
        &["w.toml:6:8", "100.0 GB", "disk `d`, which has 40.03 GB", "make it smaller"],
    ),
    ("model = \"hdd-2004\"\n[disk.a]\non = \"d\"\nmake = \"0B\"", READERS, &["w.toml:6:8", "4KiB"]),
];

/// A profile of which line 7 is wrong.
const BAD: &str = "format = 1\nmodel = \"fixed\"\nabout = \"none\"\nsources = [\"made up\"]\ndepth = 1\nread = \"1us\"\nsize = \"0B\"\n\
                   write = \"1us\"\nflush = \"1us\"\n";

#[test]
fn mistakes_about_disks_are_told_with_their_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w.toml");
    std::fs::write(directory.path().join("bad.toml"), BAD).unwrap();
    for (disk, rest, says) in CASES {
        let user = match rest.split_once(' ').map_or("", |(key, _)| key) {
            "file" => STREAM,
            "size" | "count" | "block" => READERS,
            _ => "",
        };
        std::fs::write(&file, format!("format = 1\n[disk.d]\n{disk}\n{user}{rest}")).unwrap();
        let output = surety(&["run", file.to_str().unwrap(), "--on", "sim", "--for", "1s"]);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{disk} {rest}: {said}");
        for word in *says {
            assert!(said.contains(word), "{disk} {rest}: {word} is not in {said}");
        }
    }
    let left: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "nothing is left behind: {left:?}");
}
