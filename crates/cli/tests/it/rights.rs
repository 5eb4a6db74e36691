//! As whom commands run, and with which privileges: what the kernel says of them, and what is refused.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{alone, errors, is_root, surety, surety_as_nobody, text};

/// What a program wrote of itself.
fn line<'a>(text: &'a str, key: &str) -> &'a str {
    text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("{key} in {text}")).trim()
}

/// A directory in which everybody may write.
fn open_directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    directory
}

fn written(directory: &Path, name: &str) -> String {
    std::fs::read_to_string(directory.join(name)).unwrap()
}

#[test]
fn commands_have_the_user_and_the_capabilities_that_the_workload_says() {
    if !is_root() {
        return eprintln!("SKIPPED: only root may start programs as another user");
    }
    let _alone = alone();
    let directory = open_directory();
    let at = directory.path().display();
    let status = "grep -E '^(Uid|Groups|Cap|NoNew)' /proc/self/status";
    let workload = format!(
        r#"format = 1
[[task]]
name = "limited"
prepare = "sh -c 'touch mine'"
command = "sh -c \"({status}; echo $LOGNAME; ls mine) > {at}/limited; exec sleep 60\""
user = "nobody"
[[task]]
name = "plain"
command = "sh -c \"{status} > {at}/plain; exec sleep 60\""
[[load]]
name = "nice"
kind = "command"
command = "sh -c \"{status} >> {at}/nice; chrt -f 1 true\""
user = "nobody"
keep_capabilities = "sys_nice"
"#
    );
    let file = directory.path().join("w.toml");
    std::fs::write(&file, workload).unwrap();
    let arguments = ["run", file.to_str().unwrap(), "--for", "300ms", "--warm-up", "100ms", "--json"];
    let output = surety(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let (limited, plain, nice) = (
        written(directory.path(), "limited"),
        written(directory.path(), "plain"),
        written(directory.path(), "nice"),
    );
    assert_eq!(line(&limited, "Uid:"), "65534\t65534\t65534\t65534");
    assert_eq!(line(&limited, "Groups:"), "65534");
    assert!(limited.ends_with("nobody\nmine\n"), "it works where it was prepared: {limited}");
    for key in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(line(&limited, key), "0000000000000000", "{limited}");
        assert_eq!(line(&nice, key), "0000000000800000", "{nice}");
    }
    // chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service.
    assert_eq!((line(&plain, "Uid:"), line(&plain, "CapEff:")), ("0\t0\t0\t0", "00000000000004fb"));
    for told in [&limited, &plain, &nice] {
        assert_eq!(line(told, "NoNewPrivs:"), "1", "{told}");
    }
    let document: serde_json::Value = serde_json::from_str(&text(&output)).unwrap();
    let said = document["results"][0]["in_force"]["environment"]["privileges of commands"].as_str().unwrap();
    assert!(said.contains("limited: user nobody, no new privileges, no capabilities"), "{said}");
    assert!(said.contains("nice: user nobody, no new privileges, capabilities sys_nice"), "{said}");
    assert!(said.contains("plain: no new privileges, capabilities chown,"), "{said}");
}

#[test]
fn what_cannot_be_given_is_refused_before_anything_runs() {
    let _alone = alone();
    let share = ["guarantee", "--share", "10%", "--for", "1s"];
    let refused = |options: &[&str], words: &str| {
        let arguments: Vec<&str> = share.iter().chain(options).copied().collect();
        let output = surety(&arguments);
        assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
        assert!(errors(&output).contains(words), "{}", errors(&output));
    };
    refused(&["--user", "no-such-user", "--", "true"], "there is no user `no-such-user`");
    refused(&["--keep-capabilities", "nice", "--", "true"], "`nice` is no capability");
    let own = std::process::id().to_string();
    refused(&["--user", "root", "--pid", &own], "nothing here starts one");
    let directory = open_directory();
    let arguments = ["guarantee", "--share", "10%", "--for", "1s", "--user", "root", "--", "true"];
    let Some(output) = surety_as_nobody(directory.path(), &arguments) else {
        return eprintln!("SKIPPED: setpriv is missing, no other user to be");
    };
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
    assert!(errors(&output).contains("only root may start a command as user root"), "{}", errors(&output));
}

#[test]
fn a_command_that_sets_a_class_keeps_what_it_needs_when_asked() {
    if !is_root() {
        return eprintln!("SKIPPED: only root records what the scheduler does");
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.dat");
    let record = |options: &[&str]| {
        let arguments = ["trace", "record", "--output", file.to_str().unwrap()];
        let command = ["--", "chrt", "-f", "1", "true"];
        surety(&arguments.iter().chain(options).chain(&command).copied().collect::<Vec<_>>())
    };
    let output = record(&[]);
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    assert!(errors(&output).contains("--keep-capabilities lets it keep more"), "{}", errors(&output));
    for kept in ["sys_nice", "all"] {
        let output = record(&["--keep-capabilities", kept]);
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    }
}
