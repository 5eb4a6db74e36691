//! The causes in words, as the page has them.

pub(super) const PASSED: &str = "a sleep to a release that has passed: the emulator's timer interrupts when the kernel is already in `schedule`, so the \
                      thread sleeps and one of its priority runs; where a timer interrupts at once (host) it goes on, as here. In traced guests, where all \
                      takes longer, all of its figures agreed on 6.1 and 6.12";
pub(super) const GROWS: &str = "the queue of `heavy` grows from throttling to throttling, and how much of that is seen depends on where the window begins against the \
                     throttling period; the kernel's began with some realtime thread before, here it begins 0.1 s before the run. With the window 0.1 s \
                     later 2 % more are missed, and 0.4 s later as many as there";
pub(super) const JOINED: &str = "threads of the kernel (rcu_preempt, kworker, ksoftirqd) join for microseconds every few ticks, shift which tick ends a slice and break a \
                      rhythm that lasts here";
pub(super) const WAKES: &str = "in these runs a wake-up took longer than was measured before them: the median latency of `fast` is 26 us, simulated 22.6. Which of both threads is \
                     late depends on it: `slow` misses 16.6 % simulated, 12.8 to 14.4 with 102 to 108 % of a wake-up's cost, and 8.6 to 12.2 with 110 to 135 %, \
                     where `fast` misses 21.2 to 22.2 %";
pub(super) const SERVED: &str = "the third longest of five waits for the fair server, whose budget ends on a tick: which one depends on microseconds (62.3 ms \
                      here with ticks of 12 us instead of 9)";
pub(super) const ROUND: &str = "a round of all threads takes 0.75 s, and the run is no whole number of them: simulated `high` has 44.0 to 48.6 % in windows that begin up to \
                     0.5 s later";
pub(super) const REST: &str = "a thread that is picked again at the end of its slice gets no timer and runs to the tick (`set_next_task_fair` sets it for \
                    another one only): 72 times in 3 s of a trace, where what was left of a slice is shorter than here";

pub(super) const TICKS: &str = "a CPU whose tick comes before that of the CPU that counts ticks (`jiffies`) finds its balancing not due yet and balances after 32 ms \
                     instead of 28; CPUs that take turns have either. A waiting heavy thread is taken after three failures, which needs it to wait at \
                     three such ticks, and then the light one is alone: with one or both CPUs a tick later `third` has 36 to 47 % simulated on 6.12 and 26 \
                     to 58 % on 7 (24.6 and 24.7 with none), with one or all of four `e` and `f` have 25 to 41 %. Threads of the kernel that shift the \
                     slices do the same";
pub(super) const SERVINGS: &str = "each time that a fair server acts takes 1 % in 5 s from whoever has that CPU, and whether the fair thread has gone to the other CPU \
                        before the server there acts depends on microseconds: beside two hogs it has 3.0 to 6.5 % simulated with balancing a tick later or \
                        threads of the kernel beside it";
pub(super) const ORDER: &str = "equal threads are woken at one instant, and the first to run is that whose timer was armed first, here the first by name: with another one \
                     first they have each other's shares, as measured";

pub(super) const TURNS: &str = "virtual CPUs take turns: the first one wakes both of its threads, runs one and pushes the other to the second CPU before that one has \
                     woken its own, and these two share it; CPUs that run at once (host), as here, wake all of them first";
pub(super) const REST_OF_CPUS: &str = "all of the workload has 198.2 % of two CPUs, simulated 199.4: threads of the kernel and of the run itself take the rest from the \
                            spinners";

pub(super) const THROTTLED: &str = "a period of realtime throttling (one timer for all CPUs, `CONFIG_RT_GROUP_SCHED`) goes on from realtime threads before the run: in six \
                         traces it ended 120, 196, 272, 329, 400 and 897 ms after the hogs had begun, here 900 ms, where the first one begins as they are made. Where \
                         it ends decides whether a CPU is throttled while the server of the other one acts, which gives the fair thread 5 %, or at another time, when \
                         the throttled CPU takes it, 10 %: simulated with the start moved through the period in steps of 20 ms 5.2 to 10.7 %, 9.4 with a period that \
                         ends at 360 ms, which is shown. Where it ended in these runs was not recorded";

pub(super) const STALE: &str = "each CPU's `this_bw` has more than there are reservations, which counts as asleep (`grub_reclaim`): on a boot with the same \
                     shares (36.4, 60.9 and 2.1 %) a reclaimer of 1 % beside a loop of 60, 70 or 80 % on CPU 1 had its budget run down at \
                     rates that give `Uinact + Uextra` 1.459 before they are booked, with 0.95 - 0.05 by the rule, so 0.559 too much. Rebuilding the root domain, \
                     which counts `total_bw` and `extra_bw` anew, leaves that; 0.1 too much made in `extra_bw` (a thread that leaves before its 0-lag \
                     time while domains are rebuilt) goes with it. `total_bw` (sched/debug) is right all the time. Which operation leaves it is not found: 25 ways to end, \
                     leave, change or move a reservation do not. On another boot of 6.18.44 the shares were 76.2 and 23.2 %, as here simulated";

pub(super) const BEHIND: &str = "more than one job in a hundred waits for a tick and 0.15 ms, behind threads that are not of the workload and that came as the spinner \
                      had just been chosen; no thread of the kernel that was tried beside it (96 of 5 to 4000 us every 3 to 250 ms) does it here";

pub(super) const TIES: &str = "both are released at one instant here, and of equal deadlines none preempts the other; in the kernel the periods of one begin microseconds after those of the \
                    other, whose deadline is the earlier then, as with a period of 20.001 ms for 20 or 10.001 for 10 here. The reclaimer beside one that sleeps has 56.7 % \
                    simulated and 52.5 % where the other one is released 1 us later";

pub(super) const TURNED_ROUND: &str = "which of equal threads shares a CPU changes with every balancing, and how far they are apart after 5 s depends on microseconds: beside threads of the kernel \
                            (48 of 5 to 30 us every 3 to 33 ms) three on two CPUs are 0.5 to 50 % apart simulated, half of the times more than 5, and five on four \
                            CPUs 1.7 to 27 %, half of the times more than 8";

pub(super) const COINCIDES: &str = "the longest of some hundred waits depends on whether a tick comes just before a budget is used up or just after it: with ticks that take 0 to 15 us \
                         the longest of `DEADLINE 2/10` is 17.9, 19.9, 25.9 or 27.9 ms simulated, and that of `normal` beside two reclaimers 16.1, 28.1 or 36.1 ms";

pub(super) const STOPPER: &str = "a realtime thread behind a reservation stays there beside an idle CPU until a thread above it leaves that one \
                       (`need_pull_rt_task`): the kernel's own `migration/0` did so after 2.3 s in a trace of the host, as a FIFO thread of 5 us a \
                       second does here";

pub(super) const IDLE_TICK: &str = "a CPU that goes idle has its next tick still and stops it when that has come, in the traces of 6.12 and 7 (`idle_call_stop_or_retain_tick`); here it stops at \
                         once (`nohz=late` is as there), and that tick takes timers with it whose slack goes on";

pub(super) const ASIDE: &str = "a task that wakes while a thread that is not of the workload has its CPU (the run's own, which wakes ten times a second, or a kworker) goes to another \
                     one and stays there, and another pair is together from then on: after 0.4 and 1.1 s in a trace of 7. Simulated, the pairs share 24, 33 and 36 %; \
                     which one is together depends on such threads";
