//! What `make install-lib` installs: the example of docs/c-library.md is compiled with what pkg-config says of it, as the page does, in C99 and C++11, with the shared library and with the
//! archive, and gives a file's bytes.
//!
//! A compiler and pkg-config are needed: where they are not there, these tests fail and say so.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs a program that has to be there, and to end well.
fn done(command: &mut Command) -> Output {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().unwrap_or_else(|error| {
        panic!("{name} cannot be started: {error}; install it: apt-get install gcc g++ make pkg-config")
    });
    let words = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {words}", output.status);
    output
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap().trim().to_owned()
}

/// `make install-lib` of what cargo built for this test.
struct Installed(TempDir);

impl Installed {
    fn with(variables: &[(&str, &str)]) -> Installed {
        let directory = tempfile::tempdir().unwrap();
        let release = directory.path().join("target/release");
        fs::create_dir_all(&release).unwrap();
        for ending in ["so", "a"] {
            let name = format!("libsurety_stream_c.{ending}");
            let built = std::env::current_exe().unwrap().with_file_name(&name);
            symlink(built, release.join(name)).unwrap();
        }
        let installed = Installed(directory);
        let mut make = Command::new("make");
        make.arg("--no-print-directory").arg("-C").arg(root()).arg("install-lib");
        make.env("CARGO_TARGET_DIR", installed.at("target"));
        for (name, value) in variables {
            make.arg(format!("{name}={}", value.replace('@', installed.0.path().to_str().unwrap())));
        }
        done(&mut make);
        installed
    }

    fn at(&self, place: &str) -> PathBuf {
        self.0.path().join(place)
    }

    /// What pkg-config says of the library whose file is in a directory.
    fn says(&self, directory: &str, arguments: &[&str]) -> String {
        let mut command = Command::new("pkg-config");
        command.args(arguments).arg("surety-stream").env("PKG_CONFIG_PATH", self.at(directory));
        text(&done(&mut command))
    }
}

/// The example that stands in the page.
fn example() -> String {
    let page = fs::read_to_string(root().join("docs/c-library.md")).unwrap();
    let (_, behind) = page.split_once("```c\n").unwrap();
    behind.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_example_of_the_page_compiles_with_what_pkg_config_says_and_runs() {
    let installed = Installed::with(&[("PREFIX", "@/usr"), ("LIBDIR", "@/usr/lib/here")]);
    let says = |arguments: &[&str]| installed.says("usr/lib/here/pkgconfig", arguments);
    assert_eq!(says(&["--modversion"]), env!("CARGO_PKG_VERSION"));
    let bytes: Vec<u8> =
        (0..300_007_u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    fs::write(installed.at("movie.mpg"), &bytes).unwrap();
    fs::write(installed.at("film.c"), example()).unwrap();
    let shared = says(&["--cflags", "--libs"]);
    let archive = format!("{} {}", says(&["--cflags"]), says(&["--variable=archive"]));
    let libraries = installed.at("usr/lib/here");
    for (compiler, language) in [("cc", &["-std=c99"][..]), ("c++", &["-x", "c++", "-std=c++11"])] {
        for (flags, how) in [(&shared, "shared"), (&archive, "archive")] {
            let program = installed.at(&format!("film-{compiler}-{how}"));
            let mut command = Command::new(compiler);
            command
                .args(language)
                .args(["-pedantic", "-Wall", "-Wextra", "-Werror"])
                .arg(installed.at("film.c"));
            // What follows is no source.
            command.args(["-x", "none"]).args(flags.split_whitespace()).arg("-o").arg(&program);
            done(&mut command);
            let mut run = Command::new(&program);
            run.current_dir(installed.0.path());
            if how == "shared" {
                // As `ldconfig` would for a directory that it looks into.
                run.env("LD_LIBRARY_PATH", &libraries);
            }
            assert!(done(&mut run).stdout == bytes, "{compiler}, {how}: other bytes than the file's");
        }
    }
}

#[test]
fn a_staged_library_says_where_it_will_be() {
    let installed = Installed::with(&[
        ("PREFIX", "/opt/surety"),
        ("LIBDIR", "/opt/surety/lib64"),
        ("DESTDIR", "@/stage"),
    ]);
    let says = |arguments: &[&str]| installed.says("stage/opt/surety/lib64/pkgconfig", arguments);
    assert_eq!(says(&["--variable=prefix"]), "/opt/surety");
    assert_eq!(says(&["--variable=libdir"]), "/opt/surety/lib64");
    assert_eq!(says(&["--cflags", "--libs"]), "-I/opt/surety/include -L/opt/surety/lib64 -lsurety-stream");
    assert!(says(&["--variable=archive"]).starts_with("/opt/surety/lib64/libsurety-stream.a -lgcc_s"));
    let stage = installed.at("stage/opt/surety");
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    for file in [
        "include/surety-stream.h",
        "lib64/libsurety-stream.a",
        "lib64/libsurety-stream.so",
        &format!("lib64/libsurety-stream.so.{major}"),
    ] {
        assert!(stage.join(file).exists(), "{file}");
    }
    // Without LIBDIR it is PREFIX/lib.
    let installed = Installed::with(&[("PREFIX", "/usr/local"), ("DESTDIR", "@")]);
    assert_eq!(installed.says("usr/local/lib/pkgconfig", &["--variable=libdir"]), "/usr/local/lib");
}
