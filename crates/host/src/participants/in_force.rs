//! What everybody is to have until the end, and what the kernel says about each.

use surety_enforce::{Inspector, Owner, Place, Post, ThreadState, attr_of_policy};
use surety_model::record::ThreadInForce;
use surety_model::workload::{PolicySpec, Program, TaskBody};

use super::{Body, Member, Participants, Stage};
use crate::groups;
use crate::programs::{Programs, Reserved};
use crate::returned::Activity;
use crate::threads::{thread_in_force, with_slack};

impl Stage<'_> {
    /// What everybody is to have until the end; nothing of the first thread of a program whose worker is told of on its own.
    pub fn inspector(&self, participants: &Participants) -> Inspector {
        let mut inspector = Inspector::new(self.kernel);
        for member in participants.members.iter().filter(|m| !self.has_worker(m)) {
            inspector.expect(self.post_of(member));
        }
        inspector
    }

    fn post_of(&self, member: &Member) -> Post {
        let name = self.name_of(member.activity);
        let (wanted, is_default) = (member.wanted, member.wanted == attr_of_policy(PolicySpec::default()));
        let set = |owner, attr, place| Post::set(self.kernel, (name, member.tid, owner), attr, place);
        match member.body {
            // It keeps what it was found with, unless that was changed.
            Body::Found if !wanted.policy.is_deadline() => {
                let found = ThreadState::read(self.kernel, member.tid).ok();
                let attr = found.map(|state| state.attr).filter(|_| is_default);
                let place =
                    found.map_or(Place::Within(self.all_cpus), |state| Place::Exactly(state.affinity));
                Post {
                    is_set: !is_default,
                    ..set(Owner::Others, attr.or((!is_default).then_some(wanted)), place)
                }
            }
            Body::Process => Post { is_set: false, ..set(Owner::Others, None, Place::Within(self.all_cpus)) },
            Body::Found | Body::Handler => set(Owner::Others, Some(wanted), Place::Exactly(member.affinity)),
            // What it asks for itself is its own affair, on the CPUs of the run.
            Body::Program(..) if !wanted.policy.is_deadline() => {
                set(Owner::Ours, (!is_default).then_some(wanted), Place::Within(member.affinity))
            }
            // What its steps change is its own affair, too.
            Body::Synthetic(_) => {
                let (moves, becomes) = self.changes(member.activity);
                let place = if moves { Place::Within(self.cpus) } else { Place::Exactly(member.affinity) };
                set(Owner::Ours, (!becomes).then_some(wanted), place)
            }
            _ => set(Owner::Ours, Some(wanted), Place::Exactly(member.affinity)),
        }
    }

    /// Whether a thread changes its CPUs, and whether how it is scheduled.
    fn changes(&self, activity: Activity) -> (bool, bool) {
        match activity {
            Activity::Task(index) => {
                let task = &self.workload.tasks[index];
                let (moves, becomes) = task.changes();
                (moves, becomes || task.clamps_later())
            }
            _ => (false, false),
        }
    }

    fn has_worker(&self, member: &Member) -> bool {
        let Activity::Task(index) = member.activity else { return false };
        let task = self.workload.tasks.get(index);
        task.is_some_and(|task| {
            let has_worker = matches!(&task.body, TaskBody::Command(Program { worker: Some(_), .. }));
            task.thread_of().is_some() || task.reservation.is_some() && has_worker
        })
    }

    /// What the kernel says about everybody and the workers of reserved programs, now.
    pub fn read_back(&self, participants: &Participants, programs: &Programs) -> Vec<ThreadInForce> {
        let members = participants.members.iter().filter(|m| !self.has_worker(m));
        let members = members.map(|member| (self.name_of(member.activity), member.tid));
        let worker = |reserved: &'_ Reserved| Some(reserved.worker.as_ref()?.tid);
        let workers = programs.reserved.iter().filter_map(|r| Some((r.name.as_str(), worker(r)?)));
        let said = members.chain(workers).map(|(name, tid)| thread_in_force(self.kernel, name, tid));
        let slack_of = |name: &str| self.workload.tasks.iter().find(|task| task.name == name)?.timer_slack;
        said.map(|thread| with_slack(self.kernel, slack_of(&thread.activity), thread))
            .map(|thread| groups::with_group(self.groups, self.workload, thread))
            .collect()
    }
}
