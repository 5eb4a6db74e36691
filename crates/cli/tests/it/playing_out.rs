//! Files played out through a mount by the program: what it shows, says and leaves.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::common::{beside_guests, errors, is_root, program, surety, surety_as_nobody};
use crate::schemas::keeps_to_its_schema;

/// A directory with a film, a place, and a mount by the program.
struct Played {
    process: Child,
    said: BufReader<ChildStdout>,
    noted: BufReader<ChildStderr>,
    place: PathBuf,
}

fn made(directory: &Path) -> [PathBuf; 2] {
    let [films, place] = ["films", "place"].map(|name| directory.join(name));
    if !films.exists() {
        fs::create_dir_all(&place).unwrap();
        fs::create_dir(&films).unwrap();
        let film: Vec<u8> = (0..500_001_u32).map(|n| (n % 251) as u8).collect();
        fs::write(films.join("film"), film).unwrap();
    }
    [films, place]
}

impl Played {
    /// `None`, said loudly, where there can be none.
    fn start(directory: &Path, arguments: &[&str]) -> Option<Played> {
        if !is_root() || !Path::new("/dev/fuse").exists() {
            eprintln!("SKIPPED: play-out mounts need root and /dev/fuse");
            return None;
        }
        let [films, place] = made(directory);
        let mut process = Command::new(program())
            .args(["stream", "mount", "--rate", "500MB/s"])
            .args([&films, &place])
            .args(arguments)
            .env("SURETY_RUNTIME_DIR", directory.join("run"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stdout.take().unwrap());
        let noted = BufReader::new(process.stderr.take().unwrap());
        let place = place.canonicalize().unwrap_or(place);
        Some(Played { process, said, noted, place })
    }

    /// The first line that tells of the mount, and what came before it.
    fn line(mut from: impl BufRead) -> String {
        let mut text = String::new();
        while !text.contains(" shows ") {
            assert!(from.read_line(&mut text).unwrap() > 0, "{text}");
        }
        text
    }

    fn signal(&self, signal: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    fn is_there(&self) -> bool {
        let list = fs::read_to_string("/proc/self/mountinfo").unwrap();
        list.contains(&format!(" {} ", self.place.display()))
    }

    /// The exit code, and the rest of what it said and noted.
    fn ended(&mut self) -> (Option<i32>, String, String) {
        let (mut said, mut noted) = (String::new(), String::new());
        self.said.read_to_string(&mut said).unwrap();
        self.noted.read_to_string(&mut noted).unwrap();
        (self.process.wait().unwrap().code(), said, noted)
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = Command::new("umount").arg("-l").arg(&self.place).stderr(Stdio::null()).status();
    }
}

#[test]
fn a_film_is_played_out_until_ctrl_c_and_what_became_of_it_is_said() {
    let _beside = beside_guests();
    let directory = tempfile::tempdir().unwrap();
    let Some(mut played) = Played::start(directory.path(), &["--json"]) else { return };
    Played::line(&mut played.noted);
    let [films, place] = made(directory.path());
    let through = fs::read(place.join("film")).unwrap();
    assert!(through == fs::read(films.join("film")).unwrap());
    // The server is told that a file is closed a little later.
    std::thread::sleep(Duration::from_millis(100));
    played.signal("-INT");
    let (code, said, _) = played.ended();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(keeps_to_its_schema(&["stream", "mount"], &said), "surety.stream-mount/1");
    assert!(said.contains("\"rest\": null"), "steady: {said}");
    assert!(said.contains("\"bytes\": 500001") && said.contains("\"file\": \"film\""), "{said}");
    assert!(!played.is_there() && fs::read_dir(place).unwrap().next().is_none());
}

/// With the longest batches the bytes are the same, and how the disk rested is said.
#[test]
fn a_mount_lets_its_disk_rest() {
    let _beside = beside_guests();
    let directory = tempfile::tempdir().unwrap();
    let longest = ["--mode", "longest", "--buffer", "256KiB", "--jitter", "1ms"];
    for json in [true, false] {
        let arguments = [&longest[..], if json { &["--json"] } else { &[] }].concat();
        let Some(mut played) = Played::start(directory.path(), &arguments) else { return };
        if json {
            Played::line(&mut played.noted)
        } else {
            Played::line(&mut played.said)
        };
        let [films, place] = made(directory.path());
        assert!(fs::read(place.join("film")).unwrap() == fs::read(films.join("film")).unwrap());
        std::thread::sleep(Duration::from_millis(100));
        played.signal("-INT");
        let (code, said, _) = played.ended();
        assert_eq!(code, Some(0), "{said}");
        if json {
            keeps_to_its_schema(&["stream", "mount"], &said);
            let document: serde_json::Value = serde_json::from_str(&said).unwrap();
            assert!(document["rest"]["span_ns"].as_i64().is_some_and(|ns| ns > 0), "{said}");
        } else {
            assert!(said.contains("\nthe mount left its disk alone "), "{said}");
        }
    }
}

#[test]
fn what_is_open_at_ctrl_c_is_served_until_it_is_closed() {
    let _beside = beside_guests();
    let directory = tempfile::tempdir().unwrap();
    let Some(mut played) = Played::start(directory.path(), &[]) else { return };
    Played::line(&mut played.said);
    let mut film = File::open(directory.path().join("place/film")).unwrap();
    film.read_exact(&mut [0; 1000]).unwrap();
    played.signal("-TERM");
    let mut noted = String::new();
    while !noted.contains("still open") {
        assert!(played.noted.read_line(&mut noted).unwrap() > 0, "{noted}");
    }
    let mut rest = Vec::new();
    film.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), 499_001);
    drop(film);
    let (code, said, _) = played.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("longest batch") && said.contains("film"), "{said}");
    assert!(!played.is_there());
}

#[test]
fn the_mount_of_a_killed_server_is_said_and_taken_away_at_the_next_start() {
    let _beside = beside_guests();
    let directory = tempfile::tempdir().unwrap();
    let Some(mut killed) = Played::start(directory.path(), &[]) else { return };
    Played::line(&mut killed.said);
    killed.signal("-KILL");
    killed.process.wait().unwrap();
    assert!(killed.is_there());
    // Another journal knows nothing of it.
    let [films, place] = made(directory.path());
    let place = place.to_str().unwrap();
    let refused = Command::new(program())
        .args(["stream", "mount", films.to_str().unwrap(), place, "--rate", "1MB/s"])
        .env("SURETY_RUNTIME_DIR", directory.path().join("other"))
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(3));
    assert!(errors(&refused).contains(&format!("`umount {place}`")), "{}", errors(&refused));

    let mut next = Played::start(directory.path(), &[]).unwrap();
    Played::line(&mut next.said);
    assert_eq!(fs::read(directory.path().join("place/film")).unwrap().len(), 500_001);
    assert!(Command::new("umount").arg(&next.place).status().unwrap().success());
    let (code, said, noted) = next.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(noted.contains("took back what it left: the mount at"), "{noted}");
    assert!(!next.is_there());
}

#[test]
fn what_cannot_be_mounted_is_refused_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let [films, place] = made(directory.path()).map(|path| path.to_str().unwrap().to_owned());
    let refused = |arguments: &[&str], code: i32, part: &str| {
        let output = surety(&[&["stream", "mount"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", errors(&output));
        assert!(errors(&output).contains(part), "{arguments:?}: {}", errors(&output));
    };
    refused(&[&films, &place], 2, "--rate");
    refused(&[&films, &place, "--rate", "0B/s"], 2, "above nothing");
    refused(&["/none", &place, "--rate", "1MB/s"], 2, "name a directory");
    refused(&[&films, &format!("{films}/.."), "--rate", "1MB/s"], 2, "inside one another");
    // An ordinary user has a helper, which mounts nothing over what is not the user's.
    let arguments = ["stream", "mount", &films, "/usr", "--rate", "1MB/s"];
    let Some(output) = surety_as_nobody(directory.path(), &arguments) else { return };
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    assert!(errors(&output).contains("mounting as an ordinary user failed"), "{}", errors(&output));
}
