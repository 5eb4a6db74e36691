//! This kernel.

use surety_analysis::foundation::homes_on;
use surety_host::HostWorld;
use surety_host::interpacket::InterpacketProbe;
use surety_host::request_cost::RequestCostProbe;
use surety_model::record::Record;
use surety_model::workload::Workload;
use surety_model::world::{Observer, RunOptions, World, WorldError};
use surety_units::Nanos;

use super::{Entry, Opened, Opening, WorldKind, Worlds};
use crate::failure::Failure;
use crate::modelled::ModelledDisks;
use crate::permission;

/// Its word.
pub const WORD: &str = "host";

/// Its row.
pub const HOST: WorldKind = WorldKind {
    words: || vec![WORD.to_owned()],
    clock: Some("mono"),
    is_model: false,
    is_dear: false,
    change: |means, word| {
        let what = format!("{word} is a running kernel: its platform is not changed to {}", means.platform);
        Err(Failure::request(
            what,
            "use --platform with models and guests alone: --on sim analysis lab:KERNEL",
        ))
    },
    open,
};

fn open(word: &str, _: &Opening<'_>) -> Opened {
    (word == WORD).then(|| Ok(vec![(word.to_owned(), Box::new(Host) as Box<dyn Entry>)]))
}

struct Host;

impl Entry for Host {
    fn world<'e>(
        &'e self,
        worlds: &'e Worlds<'_>,
        _: &RunOptions,
    ) -> Result<Box<dyn World + 'e>, WorldError> {
        Ok(Box::new(AtHome(worlds)))
    }

    fn objection(&self, worlds: &Worlds<'_>, workload: &Workload) -> Option<WorldError> {
        AtHome(worlds).objections(workload).into_iter().next()
    }

    fn is_this_machine(&self) -> bool {
        true
    }

    fn packets(
        &self,
        worlds: &Worlds<'_>,
        interval: Nanos,
        options: &RunOptions,
        label: &str,
    ) -> Result<Record, WorldError> {
        let context = worlds.context;
        let mut watch = context.watch(label, None);
        InterpacketProbe::new(context.kernel(), context.journal()).run(interval, options, &mut *watch)
    }

    fn requests(
        &self,
        worlds: &Worlds<'_>,
        schedulers: &[String],
        options: &RunOptions,
    ) -> Result<Record, WorldError> {
        let context = worlds.context;
        RequestCostProbe::new(context.kernel(), context.journal()).run(schedulers, options)
    }
}

/// The host, with reserved threads of each workload in root domains where they fit, or in that of the run's CPUs.
struct AtHome<'r, 'a>(&'r Worlds<'a>);

impl AtHome<'_, '_> {
    fn host(&self) -> HostWorld<'_> {
        let Worlds { context, means, .. } = self.0;
        let world = HostWorld::new(context.kernel(), context.journal()).bound(&means.bindings);
        let world = world.emulating(&ModelledDisks::HOST);
        if means.traced { world } else { world.untraced() }
    }
}

impl World for AtHome<'_, '_> {
    fn name(&self) -> String {
        self.host().name()
    }

    fn objections(&self, workload: &Workload) -> Vec<WorldError> {
        self.host().objections(workload)
    }

    fn run(
        &self,
        workload: &Workload,
        options: &RunOptions,
        observer: &mut dyn Observer,
    ) -> Result<Record, WorldError> {
        let Worlds { context, means, host, .. } = self.0;
        if !means.force {
            permission::check_workload(context.kernel(), workload, permission::is_set_by_run)?;
        }
        self.host().at_home(homes_on(workload, host, options.cpus)).run(workload, options, observer)
    }
}
