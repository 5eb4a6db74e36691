//! `--user` and `--keep-capabilities`: as whom the commands that this program starts run, and with which privileges.

use clap::Args;
use surety_model::workload::{Rights, Workload};
use surety_units::Capabilities;

use crate::exit::{Code, Failure};

/// For commands whose workload says nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct RightsArgs {
    /// Run commands as this user, by name or number [default: as surety runs]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Let commands keep these capabilities too, such as sys_nice,ipc_lock; `all` keeps every one and lets set-user-id programs
    /// take effect [default: none; for root chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service]
    #[arg(long, value_name = "LIST", value_parser = capabilities)]
    pub keep_capabilities: Option<Capabilities>,
}

fn capabilities(text: &str) -> Result<Capabilities, String> {
    text.parse::<Capabilities>().map_err(|error| error.to_string())
}

impl RightsArgs {
    /// As words of the model.
    pub fn rights(&self) -> Rights {
        Rights { user: self.user.clone(), keep: self.keep_capabilities }
    }

    /// Gives them to the commands of a workload.
    ///
    /// # Errors
    /// Where something is asked for and the workload starts no command.
    pub fn give(&self, workload: &mut Workload) -> Result<(), Failure> {
        let is_given = workload.give_rights(&self.rights());
        match is_given || self.rights() == Rights::default() {
            true => Ok(()),
            false => Err(Failure::new(
                Code::BadInput,
                "--user and --keep-capabilities are for commands, and nothing here starts one".to_owned(),
            )
            .help("leave them out")),
        }
    }
}
