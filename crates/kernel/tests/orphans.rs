//! Processes that left their group and dropped their environment are found, by a process that has no other children.

use std::io::Read;

use surety_kernel::command::{ChildSetup, Command, Stream, adopt_orphans, end_adopted, spawn};
use surety_kernel::{Kernel, RealKernel};
use surety_units::Tid;

// The only test of this program: what is adopted belongs to the whole process.
#[test]
fn what_hides_is_found_and_what_was_started_is_left_alone() {
    assert_eq!(end_adopted(), 0);
    adopt_orphans().unwrap();
    let kernel = RealKernel::new();
    let mut kept = Command::new("sleep");
    let mut kept = spawn(kept.arg("1000"), &ChildSetup::default()).unwrap();
    let mut command = Command::new("sh");
    let script = "env -i setsid sh -c 'sleep 1000 & echo $!; echo $$; exec sleep 1000' & sleep 0.3";
    command.args(["-c", script]).stdout(Stream::Pipe);
    let mut hiding = spawn(&mut command, &ChildSetup::default()).unwrap();
    let mut stdout = hiding.take_stdout().unwrap();
    let mut text = String::new();
    while text.lines().count() < 2 || !text.ends_with('\n') {
        let mut bytes = [0; 64];
        let count = stdout.read(&mut bytes).unwrap();
        assert!(count > 0, "{text}");
        text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    let hidden: Vec<_> =
        text.lines().map(|pid| kernel.identity(Tid(pid.parse().unwrap())).unwrap()).collect();
    hiding.end().unwrap();
    assert!(hidden.iter().all(|process| kernel.is_alive(*process)), "they were found without this");
    assert!(end_adopted() >= 2);
    assert!(hidden.iter().all(|process| !kernel.is_alive(*process)));
    assert!(kernel.is_alive(kept.identity()));
    kept.end().unwrap();
}
