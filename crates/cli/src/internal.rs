//! Errors of this program itself: a panic is told in one line, ends in code 5, and is a document under `--json`.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::exit::{Code, Failure};
use crate::session::tell;

thread_local! {
    /// What the last panic of this thread said.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What to do about one.
const HELP: &str = "this is a defect of surety: please report it with the command and its files; nothing of this run is to be relied on";

/// Panics are told in one line on standard error; of the main thread once it is known that nobody handles them.
pub fn announce() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(String::new, |at| format!("{}:{}: ", at.file(), at.line()));
        let words = format!("internal error: {place}{}", panic.payload_as_str().unwrap_or("unknown"));
        if std::env::var_os("RUST_BACKTRACE").is_some() {
            tell(&std::backtrace::Backtrace::force_capture().to_string());
        }
        let thread = std::thread::current();
        if thread.name() == Some("main") {
            SAID.with(|said| *said.borrow_mut() = Some(words));
        } else {
            tell(&format!("error: {words} (thread `{}`)", thread.name().unwrap_or("unnamed")));
        }
    }));
}

/// A command, a panic of which is a failure with code 5.
pub fn caught(command: impl FnOnce() -> Result<Code, Failure>) -> Result<Code, Failure> {
    catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|_| {
        let said = SAID.with(|said| said.borrow_mut().take());
        let what = said.unwrap_or_else(|| "internal error: a thread of this program panicked".to_owned());
        Err(Failure::new(Code::Internal, what).help(HELP))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failure_with_code_5() {
        assert_eq!(caught(|| Ok(Code::Undecided)).unwrap(), Code::Undecided);
        let failure = caught(|| panic!("on purpose")).unwrap_err();
        assert_eq!(failure.code, Code::Internal);
        assert!(failure.to_string().contains("please report it"), "{failure}");
    }
}
