//! Traces from standard input, from pipes, and packed.

use std::io::Write;

use super::*;

/// What `gzip` makes of a file; a loud reason where there is none.
fn gzipped(place: &Place, name: &str) -> Option<Vec<u8>> {
    let packed = Command::new("gzip").args(["--stdout", name]).current_dir(place.out()).output();
    match packed {
        Ok(output) if output.status.success() => Some(output.stdout),
        other => {
            eprintln!("SKIPPED: gzip packs nothing here: {other:?}");
            None
        }
    }
}

/// The program with these bytes on a pipe as its standard input.
fn piped(place: &Place, arguments: &[&str], bytes: &[u8]) -> Output {
    let mut command = place.surety(arguments);
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A program that refuses its input does not read it to the end.
        scope.spawn(move || drop(input.write_all(bytes)));
        child.wait_with_output().unwrap()
    })
}

#[test]
fn every_verb_reads_standard_input_and_what_is_packed() {
    let place = Place::new();
    let whole = a_file();
    fs::write(place.out().join("a.dat"), &whole).unwrap();
    let Some(packed) = gzipped(&place, "a.dat") else { return };
    assert!(packed.len() < whole.len() / 2);
    // The name says nothing of it.
    fs::write(place.out().join("packed"), &packed).unwrap();
    for verb in [
        &["stats", "--json"][..],
        &["explain", "--json"],
        &["irqs", "--json"],
        &["show"],
        &["reserve", "--response", "1s", "--comm", "player", "--json"],
        &["fit", "--json"],
    ] {
        let said = |output: &Output, file: &str| {
            let same = |text: String| {
                let text = text.replace(&format!("\"{file}\""), "\"a.dat\"");
                ["standard input:", &format!("{file}:")]
                    .iter()
                    .fold(text, |text, name| text.replace(name, "a.dat:"))
            };
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            (output.status.code(), same(text), same(words(output)))
        };
        let of = |file: &'static str| [&["trace", verb[0], file], &verb[1..]].concat();
        let expected = said(&place.run(&of("a.dat")), "a.dat");
        assert_eq!(said(&place.run(&of("packed")), "packed"), expected, "{verb:?}");
        for bytes in [&whole, &packed] {
            let output = piped(&place, &of("-"), bytes);
            assert_eq!(said(&output, "-"), expected, "{verb:?}");
        }
    }
    // A file as standard input.
    let mut command = place.surety(&["trace", "convert", "-", "a.csv"]);
    let file = fs::File::open(place.out().join("packed")).unwrap();
    let output = command.stdin(file).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    place.run(&["trace", "convert", "a.dat", "b.csv"]);
    let read = |name: &str| fs::read(place.out().join(name)).unwrap();
    assert_eq!(read("a.csv"), read("b.csv"));
}

#[test]
fn packed_traces_that_are_cut_or_unpack_to_too_much_are_refused() {
    let place = Place::new();
    fs::write(place.out().join("a.dat"), a_file()).unwrap();
    fs::write(place.out().join("zeros"), vec![0; 100 << 20]).unwrap();
    let (Some(packed), Some(bomb)) = (gzipped(&place, "a.dat"), gzipped(&place, "zeros")) else { return };
    for (bytes, said) in [
        (&packed[..packed.len() / 2], "standard input: its gzip data are truncated after"),
        (&bomb, "256 times as many"),
        (&[0x1f, 0x8b, 8, 0, 0], "are truncated after 5 bytes"),
        (b"", "byte 0"),
        (b"GIF89a", "standard input: byte 0: this is no trace"),
    ] {
        let output = piped(&place, &["trace", "stats", "-"], bytes);
        assert_eq!(output.status.code(), Some(2), "{}", words(&output));
        assert!(words(&output).contains(said), "{said}: {}", words(&output));
    }
    let device = place.run(&["trace", "stats", "/dev/null"]);
    assert!(words(&device).contains("no ordinary file and no pipe"), "{}", words(&device));
}
