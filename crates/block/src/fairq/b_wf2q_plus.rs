//! B-WF2Q+: WF2Q+ over budgets, the engine of BFQ ([`super::budget`]), with the budget of every flow as it is made with.

use super::SchedulerRow;
use super::budget::BudgetFair;

pub(super) const ROW: SchedulerRow = SchedulerRow {
    word: "b-wf2q+",
    source: "P. Valente, F. Checconi, 2010; block/bfq-wf2q.c",
    tc: None,
    limits: None,
    make: |making| Box::new(BudgetFair::new(making, None)),
};
