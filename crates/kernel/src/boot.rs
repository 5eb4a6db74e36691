//! What the first process of a machine does: mount the kernel's file systems, load modules, bring the loopback device
//! up, speak through a port, switch the machine off.
//!
//! Meant for the guest of a virtual machine, where all of it vanishes with the machine. On a machine that others use
//! nothing here has a business: every call needs a privilege, and none is undone.

use std::ffi::CString;
use std::fs::File;
use std::path::Path;

use rustix::mount::MountFlags;
use rustix::system::RebootCommand;

use crate::error::{KernelError, Operation, check};

/// Mounts a file system of the kernel that needs no source, such as `proc`. Its directory is made when it is not there.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN, ENODEV when the kernel has no such file system, EBUSY when it is mounted there already.
pub fn mount(file_system: &str, directory: &Path) -> Result<(), KernelError> {
    if let Err(error) = std::fs::create_dir_all(directory) {
        return Err(KernelError::from_io(Operation::MakeDir, directory.display().to_string(), &error));
    }
    rustix::mount::mount(file_system, directory, file_system, MountFlags::empty(), None).map_err(|error| {
        let object = format!("{file_system} on {}", directory.display());
        KernelError::new(Operation::Mount, object, error.raw_os_error())
    })
}

/// Loads a module that is not compressed, with its parameters as `name=value` words.
///
/// # Errors
/// EPERM without CAP_SYS_MODULE, ENOENT when a module it depends on is not loaded, EEXIST when it is loaded already.
pub fn load_module(path: &Path, parameters: &str) -> Result<(), KernelError> {
    let object = path.display().to_string();
    let file = File::open(path).map_err(|e| KernelError::from_io(Operation::Open, object.clone(), &e))?;
    let failed = |errno| KernelError::new(Operation::LoadModule, object.clone(), errno);
    let words = CString::new(parameters).map_err(|_| failed(libc::EINVAL))?;
    rustix::system::finit_module(file, &words, 0).map_err(|error| failed(error.raw_os_error()))
}

/// Brings the loopback device up, so that a machine without any other network can send to itself.
///
/// # Errors
/// EPERM without CAP_NET_ADMIN.
pub fn loopback_up() -> Result<(), KernelError> {
    let switched = crate::net::switch_on("lo");
    switched.map_err(|errno| KernelError::new(Operation::Network, "the loopback device", errno))
}

/// Switches the machine off at once: no process is told, nothing is written back. Returns only when it fails.
///
/// # Errors
/// EPERM without CAP_SYS_BOOT.
pub fn power_off() -> KernelError {
    let errno =
        rustix::system::reboot(RebootCommand::PowerOff).map_or_else(|e| e.raw_os_error(), |()| libc::EIO);
    KernelError::new(Operation::PowerOff, "the machine", errno)
}

/// An I/O port that this thread may write bytes to: of an emulated machine, where a byte written is there at once, no
/// interrupt comes of it and the kernel has no part in it. So what is said there disturbs what is measured least.
#[derive(Debug)]
pub struct OutputPort {
    port: u16,
}

impl OutputPort {
    /// Asks for the right to one port, for this thread.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_RAWIO, ENOSYS on a processor without I/O ports.
    pub fn open(port: u16) -> Result<OutputPort, KernelError> {
        let failed = |errno| KernelError::new(Operation::Port, format!("{port:#x}"), errno);
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: takes integers; gives this thread the right to one port.
            let result = unsafe { libc::ioperm(port.into(), 1, 1) };
            check(result.into()).map_err(failed)?;
            Ok(OutputPort { port })
        }
        #[cfg(not(target_arch = "x86_64"))]
        Err(failed(libc::ENOSYS))
    }

    /// Writes bytes, one after another. Only in the thread that opened the port.
    pub fn write(&mut self, bytes: &[u8]) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the instruction reads `bytes.len()` bytes from the slice and writes them to a port that `open` got
        // the right to (without it the thread would be killed, no memory harmed); the direction flag is clear by the
        // calling convention.
        unsafe {
            std::arch::asm!(
                "rep outsb",
                in("dx") self.port,
                inout("rsi") bytes.as_ptr() => _,
                inout("rcx") bytes.len() => _,
                options(nostack, preserves_flags, readonly)
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (self.port, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_what_was_asked() {
        let error = mount("no-such-file-system", Path::new("/proc")).unwrap_err();
        assert_eq!(error.operation, Operation::Mount);
        assert!([libc::ENODEV, libc::EPERM].contains(&error.errno), "{error}");
        let error = load_module(Path::new("/no/such/module.ko"), "").unwrap_err();
        assert_eq!((error.operation, error.errno), (Operation::Open, libc::ENOENT));
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = load_module(file.path(), "").unwrap_err();
        assert_eq!(error.operation, Operation::LoadModule);
    }
}
