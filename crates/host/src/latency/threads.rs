//! [`ProbeThreads`]: the recording threads and the loads of one run, and the copies of what the former have recorded.

use super::*;

/// What the threads of each load did.
type LoadRuns = Vec<Vec<LoadRun>>;

/// Who takes part.
pub(super) struct ProbeThreads {
    probes: Vec<Member>,
    shared: Vec<Arc<Shared>>,
    loads: Crew,
    done: Arc<AtomicUsize>,
    /// The first wake-up that was too late, of any thread.
    pub spike: Arc<OnceLock<Spike>>,
}

/// A thread that has been made.
struct Member {
    cpu: CpuId,
    tid: Tid,
    handle: JoinHandle<ThreadRun>,
}

impl ProbeThreads {
    /// Makes every thread; they wait at the gate. When one cannot be made, those already made are sent home.
    pub fn gather(
        options: &LatencyOptions,
        cpus: CpuSet,
        gate: &Arc<Gate>,
        marker: Option<&Marker>,
        ground: &Ground<'_>,
    ) -> Result<ProbeThreads, WorldError> {
        let mut company = ProbeThreads {
            probes: Vec::new(),
            shared: Vec::new(),
            loads: Crew::default(),
            done: Arc::default(),
            spike: Arc::default(),
        };
        let made = company
            .loads
            .gather(&options.loads, cpus, gate, ground)
            .and_then(|()| company.make_probes(options, cpus, gate, marker));
        match made {
            Ok(()) => Ok(company),
            Err(error) => {
                company.send_home(gate, options);
                Err(error)
            }
        }
    }

    fn make_probes(
        &mut self,
        options: &LatencyOptions,
        cpus: CpuSet,
        gate: &Arc<Gate>,
        marker: Option<&Marker>,
    ) -> Result<(), WorldError> {
        let period = options.period.max(Nanos::new(1));
        let count = u64::try_from(cpus.len()).unwrap_or(u64::MAX);
        for (place, cpu) in (0u64..).zip(cpus.iter()) {
            let shared = Arc::new(Shared {
                spike: Arc::clone(&self.spike),
                done: Arc::clone(&self.done),
                wanted: AtomicBool::new(false),
                copy: Mutex::new(LatencyTotals::touched()),
            });
            let spec = ThreadSpec {
                cpu,
                offset: period.mul_ratio(place, count),
                period,
                sleep: options.sleep,
                warm_up: options.warm_up.div_ceil(period).max(0).unsigned_abs(),
                jobs: options.jobs,
                stop_over: options.stop_over,
                marker: marker.cloned(),
                shared: Arc::clone(&shared),
            };
            let of_probe = Arc::clone(gate);
            // Made here, so that the thread finds its memory there and faulted in.
            let account = LatencyAccount::new(period);
            let run = move || spec.run(&of_probe, account);
            let (tid, handle) = spawn_thread(&format!("surety-cpu{cpu}"), gate, run)?;
            self.probes.push(Member { cpu, tid, handle });
            self.shared.push(shared);
        }
        Ok(())
    }

    /// Gives everybody CPUs and policy, loads first so that nothing half set up uses a reservation.
    pub fn place(
        &self,
        surroundings: &Surroundings<'_>,
        enforcer: &mut Enforcer<'_>,
        options: &LatencyOptions,
    ) -> Result<Vec<surety_model::record::ThreadInForce>, WorldError> {
        let mut threads = self.loads.place(surroundings, enforcer, &options.loads)?;
        for member in &self.probes {
            let name = format!("cpu{}", member.cpu);
            threads.push(surroundings.place(
                enforcer,
                (&name, member.tid),
                CpuSet::single(member.cpu),
                &options.policy,
            )?);
        }
        Ok(threads)
    }

    /// Whether every recording thread has ended.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) >= self.probes.len()
    }

    /// Asks for a copy from every thread.
    pub fn ask(&self) {
        for shared in &self.shared {
            shared.wanted.store(true, Ordering::Release);
        }
    }

    /// No look yet at any CPU.
    pub fn looks(&self, rule: Option<Until>) -> Vec<(CpuId, Looks, Option<Look>)> {
        let of = |rule| self.probes.iter().map(move |m| (m.cpu, Looks::new(rule, CONFIDENCE), None));
        rule.into_iter().flat_map(of).collect()
    }

    /// Looks at the last copies; whether the rule is met on every CPU.
    pub fn look(&self, looks: &mut [(CpuId, Looks, Option<Look>)]) -> bool {
        for ((_, looks, last), shared) in looks.iter_mut().zip(&self.shared) {
            // Once met it is met: later looks would spend risk for nothing.
            if last.is_some_and(|look: Look| look.is_met) {
                continue;
            }
            let copy = shared.copy.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(look) = looks.look(&copy.intended.histogram) {
                *last = Some(look);
            }
        }
        looks.iter().all(|(_, _, last)| last.is_some_and(|look| look.is_met))
    }

    /// Shows the last copies.
    pub fn show(&self, watcher: &mut dyn FnMut(&[Live<'_>])) {
        let copies: Vec<_> =
            self.shared.iter().map(|s| s.copy.lock().unwrap_or_else(PoisonError::into_inner)).collect();
        let live: Vec<Live<'_>> =
            self.probes.iter().zip(&copies).map(|(m, copy)| Live { cpu: m.cpu, totals: copy }).collect();
        watcher(&live);
    }

    /// Waits for everybody; the gate has been stopped. What a thread that panicked recorded is lost.
    pub fn collect(
        self,
        options: &LatencyOptions,
    ) -> (Vec<(CpuId, ThreadRun)>, Result<LoadRuns, WorldError>) {
        let runs = self.probes.into_iter().filter_map(|m| Some((m.cpu, m.handle.join().ok()?))).collect();
        (runs, self.loads.collect(&options.loads))
    }

    /// Ends everybody before the run began.
    pub fn send_home(self, gate: &Gate, options: &LatencyOptions) {
        gate.stop();
        let _ = self.collect(options);
    }
}
