//! [`IdleHold`]: no CPU enters an idle state that takes time to leave, as long as somebody holds it.
//!
//! `/dev/cpu_dma_latency` takes a limit in microseconds as a 32-bit integer and keeps it for as long as the file is open
//! (`Documentation/power/pm_qos_interface.rst`): the kernel gives it up by itself, however the process ends.

use std::fs::{File, OpenOptions};
use std::io::Write;

use surety_units::Nanos;

use crate::error::{KernelError, Operation};

/// The kernel's file.
const PATH: &str = "/dev/cpu_dma_latency";

/// A limit on how long leaving an idle state may take, on every CPU, until it is dropped.
#[derive(Debug)]
pub struct IdleHold {
    _file: File,
}

impl IdleHold {
    /// Asks for idle states that are left within `latency`, whole microseconds rounded down; 0 allows polling only.
    ///
    /// # Errors
    /// EACCES for ordinary users, ENOENT where the kernel has no such file.
    pub fn of(latency: Nanos) -> Result<IdleHold, KernelError> {
        let micros = i32::try_from(latency.div_floor(Nanos::from_micros(1)).max(0)).unwrap_or(i32::MAX);
        let failed = |operation| move |error: std::io::Error| KernelError::from_io(operation, PATH, &error);
        let mut file = OpenOptions::new().write(true).open(PATH).map_err(failed(Operation::Open))?;
        file.write_all(&micros.to_ne_bytes()).map_err(failed(Operation::Write))?;
        Ok(IdleHold { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_in_force_as_long_as_it_is_held() {
        let limit = || {
            let mut bytes = [0; 4];
            let file = File::open(PATH).unwrap();
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).unwrap();
            i32::from_ne_bytes(bytes)
        };
        match IdleHold::of(Nanos::ZERO) {
            Ok(hold) => {
                assert_eq!(limit(), 0);
                drop(hold);
            }
            Err(error) => eprintln!("SKIPPED: {error}"),
        }
    }
}
