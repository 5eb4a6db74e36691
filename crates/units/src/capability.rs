//! [`Capabilities`]: a set of the kernel's capabilities, the parts into which root's privileges are divided.
//!
//! Numbers and names are those of `include/uapi/linux/capability.h`. The text form is a list of names as `setpriv` takes them
//! (`sys_nice,net_admin`); the prefix `CAP_` and capital letters are accepted. `all` and `none` are the two ends.

use std::fmt;
use std::str::FromStr;

/// Names in the order of their numbers.
const NAMES: [&str; 41] = [
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

/// A set of capabilities: bit N is capability N.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Those of an ordinary user's process.
    pub const NONE: Capabilities = Capabilities(0);
    /// Every one, those without a name here included.
    pub const ALL: Capabilities = Capabilities(u64::MAX);
    /// To change the process's own set (`setpcap`).
    pub const SET_CAPABILITIES: Capabilities = Capabilities(1 << 8);
    /// To become another user, with other groups (`setuid`, `setgid`).
    pub const SET_USER: Capabilities = Capabilities(1 << 6 | 1 << 7);
    /// What a process of root needs to work with files of every owner, with processes, as another user, and to serve low ports: `chown`,
    /// `dac_override`, `fowner`, `fsetid`, `kill`, `setgid`, `setuid`, `net_bind_service`.
    pub const ORDINARY_ROOT: Capabilities =
        Capabilities(1 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 10);

    /// Whether none is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those in both.
    pub fn and(self, other: Capabilities) -> Capabilities {
        Capabilities(self.0 & other.0)
    }

    /// Those in this set and not in the other.
    pub fn without(self, other: Capabilities) -> Capabilities {
        Capabilities(self.0 & !other.0)
    }

    /// Their numbers.
    pub fn numbers(self) -> impl Iterator<Item = u32> {
        (0..u64::BITS).filter(move |number| self.0 & (1 << number) != 0)
    }
}

/// A word that names no capability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no capability; capabilities(7) lists them: `sys_nice,ipc_lock`, or `all`, or `none`")]
pub struct UnknownCapability(pub String);

impl FromStr for Capabilities {
    type Err = UnknownCapability;

    fn from_str(text: &str) -> Result<Capabilities, UnknownCapability> {
        match text.trim().to_ascii_lowercase().as_str() {
            "all" => return Ok(Capabilities::ALL),
            "none" => return Ok(Capabilities::NONE),
            _ => {}
        }
        let mut set = 0;
        for word in text.split(',') {
            let name = word.trim().to_ascii_lowercase();
            let name = name.strip_prefix("cap_").unwrap_or(&name);
            let number = NAMES.iter().position(|known| *known == name);
            set |= 1 << number.ok_or_else(|| UnknownCapability(word.trim().to_owned()))?;
        }
        Ok(Capabilities(set))
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Capabilities::ALL => f.write_str("all"),
            Capabilities::NONE => f.write_str("none"),
            some => {
                let name = |number: u32| match NAMES.get(number as usize) {
                    Some(name) => (*name).to_owned(),
                    None => number.to_string(),
                };
                f.write_str(&some.numbers().map(name).collect::<Vec<_>>().join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_written_as_they_are_read() {
        for (text, set, written) in [
            ("sys_nice", 1 << 23, "sys_nice"),
            ("CAP_SYS_NICE, ipc_lock", 1 << 23 | 1 << 14, "ipc_lock,sys_nice"),
            ("checkpoint_restore", 1 << 40, "checkpoint_restore"),
            ("all", u64::MAX, "all"),
            ("None", 0, "none"),
        ] {
            let read: Capabilities = text.parse().unwrap();
            assert_eq!((read, read.to_string().as_str()), (Capabilities(set), written), "{text}");
            assert_eq!(read.to_string().parse(), Ok(read));
        }
        for wrong in ["", "nice", "sys_nice,,kill", "cap_", "all,kill"] {
            assert!(wrong.parse::<Capabilities>().is_err(), "{wrong}");
        }
        let ordinary = "chown,dac_override,fowner,fsetid,kill,setgid,setuid,net_bind_service";
        assert_eq!(Capabilities::ORDINARY_ROOT.to_string(), ordinary);
    }
}
