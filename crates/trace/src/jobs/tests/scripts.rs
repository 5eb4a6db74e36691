//! The table of scripts: what each shows, its events, the thread looked at, and the jobs it must have.

/// What, the script, the thread, what it must give.
pub(super) const SCRIPTS: &[(&str, &str, i32, &str)] = &[
    (
        "a busy period is a job",
        "10 0 waking 7
         11 0 wakeup 7
         15 0 sw 0 7
         40 0 sw 7:S 0",
        7,
        "10/15/40 25",
    ),
    (
        "without a waking the wakeup releases",
        "11 0 wakeup 7
         15 0 sw 0 7
         40 0 sw 7:D 0",
        7,
        "11/15/40 25",
    ),
    (
        "a thread of interrupts that waits for a lock is in the midst of its job",
        "10 0 waking 902
         12 0 sw 0 902
         22 0 sw 902:D 7
         30 0 waking 902
         33 0 sw 7:R+ 902
         93 0 sw 902:S 0
         100 0 waking 902
         101 0 sw 0 902
         105 0 sw 902:D 0
         106 0 sw 0 902
         108 0 sw 902:S 0
         120 0 waking 902
         121 0 sw 0 902
         125 0 sw 902:D 0",
        902,
        "10/12/93 70; 100/101/108 6; censored 1",
    ),
    (
        "preemption and migration",
        "10 0 waking 7
         15 0 sw 0 7
         20 0 sw 7:R+ 8
         30 1 sw 0 7
         35 1 sw 7:R 9
         36 1 sw 9:S 7
         40 1 sw 7:S 0",
        7,
        "10/15/40 14 pre 2",
    ),
    (
        "several jobs",
        "10 0 waking 7
         12 0 sw 0 7
         14 0 sw 7:S 0
         50 0 waking 7
         53 0 sw 0 7
         59 0 sw 7:S 0",
        7,
        "10/12/14 2; 50/53/59 6",
    ),
    (
        "the trace begins inside a job and ends inside another",
        "10 0@7 irq
         12 0 irqx
         14 0 sw 7:S 0
         50 0 waking 7
         53 0 sw 0 7
         59 0 sw 7:S 0
         70 0 waking 7",
        7,
        "50/53/59 6; censored 2",
    ),
    (
        "woken before it is off its CPU: the next job is released then",
        "10 0 waking 7
         12 0 sw 0 7
         13 1 waking 7
         14 0 sw 7:S 0
         15 0 wakeup 7
         17 0 sw 0 7
         20 0 sw 7:S 0",
        7,
        "10/12/14 2; 13/17/20 3",
    ),
    (
        "woken before it had gone to sleep: the job goes on",
        "10 0 waking 7
         12 0 sw 0 7
         13 1 waking 7
         13 1 wakeup 7
         14 0 sw 7:R+ 8
         15 0 sw 8:S 7
         20 0 sw 7:S 0
         30 0 waking 7
         31 0 sw 0 7
         33 0 sw 7:S 0",
        7,
        "10/12/20 7 pre 1; 30/31/33 2",
    ),
    (
        "a wake-up recorded after its switch-in",
        "10 0 waking 7
         12 0 sw 0 7
         14 0 sw 7:S 0
         50 0 sw 0 7
         52 1 waking 7
         53 1 wakeup 7
         59 0 sw 7:S 0",
        7,
        "10/12/14 2; 50/50/59 9",
    ),
    (
        "a switch-in nobody explains has no release",
        "10 0 waking 7
         12 0 sw 0 7
         14 0 sw 7:S 0
         50 0 sw 0 7
         59 0 sw 7:S 0
         70 0 waking 7
         71 0 sw 0 7
         72 0 sw 7:S 0",
        7,
        "10/12/14 2; 70/71/72 1; censored 1",
    ),
    (
        "a wake-up far later than the switch-in does not explain it",
        "10 0 waking 7
         12 0 sw 0 7
         14 0 sw 7:S 0
         50 0 sw 0 7
         250 1 waking 7
         259 0 sw 7:S 0",
        7,
        "10/12/14 2; censored 1",
    ),
    (
        "lost events censor the open job of who was there, and only that",
        "10 0 waking 7
         12 0 sw 0 7
         13 1 waking 8
         14 1 sw 0 8
         20 0 lost
         25 0@7 irq
         26 0 irqx
         30 0 sw 7:S 0
         31 1 sw 8:S 0
         40 0 waking 7
         41 0 sw 0 7
         44 0 sw 7:S 0",
        7,
        // Once for the job the gap cut, once for the one found running after it.
        "40/41/44 3; censored 2",
    ),
    (
        "others go on through a gap elsewhere",
        "10 0 waking 7
         12 0 sw 0 7
         13 1 waking 8
         14 1 sw 0 8
         20 0 lost
         31 1 sw 8:S 0",
        8,
        "13/14/31 17",
    ),
    (
        "interrupts are counted once however they nest",
        "10 0 waking 7
         12 0 sw 0 7
         14 0 vec
         15 0 irq
         16 0 irqx
         18 0 vecx
         19 0 soft
         20 0 vec
         22 0 vecx
         24 0 softx
         30 0 sw 7:S 0",
        7,
        "10/12/30 18 int 9",
    ),
    (
        "an interrupt that began before the thread came counts from its coming",
        "10 0 waking 7
         11 0 irq
         12 0 sw 0 7
         14 0 irqx
         20 0 irq
         25 0 sw 7:S 0",
        7,
        "10/12/25 13 int 5",
    ),
    (
        "softirqs are ksoftirqd's own work, hard interrupts are not",
        "10 0 waking 901
         12 0 sw 0 901
         13 0 soft
         14 0 vec
         15 0 vecx
         18 0 softx
         20 0 sw 901:S 0",
        901,
        "10/12/20 8 int 1",
    ),
    (
        "a throttle lasts until the timer, and is no preemption",
        "10 0 waking 7
         12 0 sw 0 7:R:-1
         20 0 arm 55 dl
         21 0 sw 7:R:-1 0
         40 0 fire 55 dl
         42 0 sw 0 7:R:-1
         50 0 sw 7:S:-1 0",
        7,
        "10/12/50 17 thr 19",
    ),
    (
        "a deadline thread preempted by another while the fair server is armed",
        "5 0@8 arm 77 dl
         6 0 sw 8:S 0
         10 0 waking 7
         12 0 sw 0 7:R:-1
         20 0 arm 77 dl
         21 0 sw 7:R+:-1 9:R:-1
         25 0 sw 9:S:-1 7:R:-1
         50 0 sw 7:S:-1 0",
        7,
        "10/12/50 34 pre 1",
    ),
    (
        "a thread's own timer is known again when another deadline thread follows",
        "10 0 waking 7
         12 0 sw 0 7:R:-1
         20 0 arm 55 dl
         21 0 sw 7:R:-1 0
         40 0 cancel 55
         40 0 fire 55 dl
         42 0 sw 0 7:R:-1
         50 0 arm 77 dl
         51 0 sw 7:R+:-1 9:R:-1
         52 0 sw 9:S:-1 7:R:-1
         60 0 arm 55 dl
         61 0 arm 77 dl
         62 0 sw 7:R:-1 9:R:-1
         72 0 fire 55 dl
         75 0 sw 9:S:-1 7:R:-1
         80 0 sw 7:S:-1 0",
        7,
        "10/12/80 33 pre 1 thr 29",
    ),
    (
        "the stopper preempts, it does not throttle",
        "10 0 waking 7
         12 0 sw 0 7:R:-1
         20 0 arm 77 tick
         21 0 sw 7:R+:-1 900:R:0
         25 0 sw 900:S:0 7:R:-1
         50 0 sw 7:S:-1 0",
        7,
        "10/12/50 34 pre 1",
    ),
    (
        "a throttle without names: the timer that is not the tick",
        "10 0 waking 7
         12 0 sw 0 7:R:-1
         18 0 fire 1 ?
         19 0 arm 55 ?
         20 0 arm 1 ?
         21 0 sw 7:R:-1 0
         30 0 fire 1 ?
         40 0 fire 55 ?
         42 0 sw 0 7:R:-1
         50 0 sw 7:S:-1 0",
        7,
        "10/12/50 17 thr 19",
    ),
    (
        "a fair thread that is switched out beside an armed timer is preempted",
        "10 0 waking 7
         12 0 sw 0 7
         20 0 arm 55 dl
         21 0 sw 7:R+ 8
         25 0 sw 8:S 7
         50 0 sw 7:S 0",
        7,
        "10/12/50 34 pre 1",
    ),
    (
        "markers: the job starts at the switch-in before its begin",
        "10 0 waking 7
         12 0 sw 0 7
         14 0 mark surety:b:3:9000
         20 0 mark surety:e:3
         21 0 sw 7:S 0",
        7,
        "#3 9/12/20 6",
    ),
    (
        "markers: a late job starts where it says, on the CPU already",
        "10 0 waking 7
         12 0 sw 0 7
         14 0 mark surety:b:0:9000
         60 0 mark surety:e:0
         62 0 mark surety:b:1:49000
         70 0 mark surety:e:1
         71 0 sw 7:S 0
         90 0 waking 7
         92 0 sw 0 7
         93 0 mark surety:b:2:89000
         95 0 mark surety:e:2
         96 0 sw 7:S 0",
        7,
        "#0 9/12/60 46; #1 49/62/70 8; #2 89/92/95 2",
    ),
    (
        "markers: set-up before the first is no job",
        "1 0 waking 7
         2 0 sw 0 7
         3 0 sw 7:S 0
         10 0 waking 7
         12 0 sw 0 7
         30 0 mark surety:b:0:20000
         40 0 mark surety:e:0
         41 0 sw 7:S 0",
        7,
        "#0 20/30/40 10",
    ),
    (
        "markers: a job may sleep and be preempted; the next is not started by its wake-up",
        "10 0 waking 7
         12 0 sw 0 7
         13 0 mark surety:b:0:9000
         20 0 sw 7:S 0
         30 0 waking 7
         32 0 sw 0 7
         34 0 sw 7:R+ 8
         38 0 sw 8:S 7
         40 0 mark surety:e:0
         42 0 mark surety:b:1:29000
         50 0 mark surety:e:1
         51 0 sw 7:S 0",
        7,
        "#0 9/12/40 11 pre 1; #1 29/42/50 8",
    ),
    (
        "markers: interrupts between begin and end only",
        "10 0 waking 7
         12 0 sw 0 7
         13 0 irq
         14 0 irqx
         15 0 mark surety:b:0:9000
         16 0 irq
         18 0 irqx
         20 0 mark surety:e:0
         21 0 irq
         22 0 irqx
         23 0 sw 7:S 0",
        7,
        "#0 9/12/20 5 int 2",
    ),
    (
        "markers: the trace begins inside a job, a begin is lost, one stays open",
        "5 0@7 mark surety:e:0
         6 0 sw 7:S 0
         10 0 waking 7
         12 0 sw 0 7
         13 0 mark surety:b:1:9000
         20 0 mark surety:e:1
         30 0 mark surety:e:2
         32 0 mark surety:b:3:31000
         34 0 mark surety:b:4:33000",
        7,
        "#1 9/12/20 7; censored 4",
    ),
    (
        "markers: lost events take the open job, and its end is no second one",
        "10 0 waking 7
         12 0 sw 0 7
         13 0 mark surety:b:1:9000
         15 0 lost
         20 0@7 mark surety:e:1
         22 0 mark surety:b:2:21000
         25 0 mark surety:e:2
         26 0 sw 7:S 0",
        7,
        "#2 21/22/25 3; censored 1",
    ),
    (
        "markers: a release that is still to come is on another clock",
        "10 0 waking 7
         12 0 sw 0 7
         13 0 mark surety:b:1:999000
         20 0 mark surety:e:1
         22 0 mark surety:b:2:-5
         23 0 mark surety:e:2
         24 0 mark surety:b:3:24000
         25 0 mark surety:e:3
         26 0 sw 7:S 0",
        7,
        "#3 24/24/25 1; censored 2",
    ),
    (
        "markers: what came before the first end is set-up too",
        "1 0 waking 7
         2 0 sw 0 7
         3 0 sw 7:S 0
         5 0@7 mark surety:e:0
         6 0 mark surety:b:1:6000
         8 0 mark surety:e:1",
        7,
        "#1 6/6/8 2; censored 1",
    ),
    (
        "others' text is no marker",
        "10 0 waking 7
         12 0 sw 0 7
         13 0 mark hello
         20 0 sw 7:S 0",
        7,
        "10/12/20 8",
    ),
    (
        "an id is reused after exit",
        "10 0@1 fork 7
         11 0 new 7
         12 0 sw 1:S 7
         18 0 exit 7
         20 0 sw 7:X 0
         30 0@1 fork 7
         31 0 new 7
         33 0 sw 1:S 7
         40 0 sw 7:Z 0
         50 0 waking 7
         51 0 sw 0 7
         55 0 sw 7:S 0",
        7,
        "11/12/20 8 | 31/33/40 7 | 50/51/55 4",
    ),
    (
        "an id is reused and the exit was not seen",
        "10 0 waking 7
         12 0 sw 0 7
         14 0 sw 7:S 0
         30 0@1 new 7
         33 0 sw 1:S 7
         40 0 sw 7:S 0",
        7,
        "10/12/14 2 | 30/33/40 7",
    ),
    (
        "exec by another than the leader: it goes on under the leader's id",
        "10 0 waking 8
         12 0 sw 0 8
         14 0 exec 7 8
         20 0 sw 7:S 0",
        7,
        "10/12/20 8",
    ),
    (
        "an unrecorded switch out of idle is inferred from who is current",
        "5 0@9 sw 9:S 0
         10 0 vec
         11 0 waking 7
         12 0 vecx
         20 0@7 vec
         22 0 vecx
         30 0 sw 7:S 0",
        7,
        "11/12/30 18 int 2 inferred 8",
    ),
    (
        "it cannot have come before it was ready",
        "5 0@9 sw 9:S 0
         11 1 waking 7
         12 1 wakeup 7
         30 0@7 sw 7:S 0",
        7,
        "11/12/30 18 inferred 18",
    ),
    (
        "a wait for a lock is in the midst of a job, a wait for work ends it",
        "10 0 waking 7
         12 0 sw 0 7
         14 0 lock
         15 0 sw 7:S 8
         40 0 waking 7
         45 0 sw 8:S 7
         46 0 futexx
         50 0 lockpi
         51 0 sw 7:S 8
         60 0 waking 7
         62 0 sw 8:S 7
         63 0 futexx
         70 0 wait
         72 0 sw 7:S 0
         90 0 waking 7
         92 0 sw 0 7
         93 0 futexx
         95 0 lock
         96 0 futexx
         99 0 sw 7:S 0",
        7,
        "10/12/72 19; 90/92/99 7",
    ),
    (
        "between bounds that are too wide nobody knows who ran",
        "5 0@9 sw 9:S 0
         11 1 waking 7
         12 1 wakeup 7
         1691 0@7 sw 7:S 0
         1700 0 waking 7
         1702 0 sw 0 7
         1705 0 sw 7:S 0",
        7,
        "1700/1702/1705 3; doubtful 11/1691/1691 0 unknown 1679; censored 1",
    ),
    (
        "the same inside a job",
        "5 0@9 sw 9:S 0
         11 1 waking 7
         12 0 sw 0 7
         20 0 sw 7:R+ 0
         120 0@7 irq
         121 0 irqx
         130 0 sw 7:S 0",
        7,
        "doubtful 11/12/130 18 int 1 pre 1 unknown 100; censored 1",
    ),
    (
        "a marked job knows its own work when only its start is unknown",
        "5 0@9 sw 9:S 0
         11 1 waking 7
         12 1 wakeup 7
         200 0@7 mark surety:b:0:10000
         230 0 mark surety:e:0
         240 0 sw 7:S 0",
        7,
        "#0 10/200/230 30",
    ),
    (
        "an unrecorded switch between threads censors the one that was there",
        "10 0 waking 7
         12 0 sw 0 7
         20 0@8 irq
         22 0 irqx
         30 0 sw 8:S 0
         40 0 waking 7
         42 0 sw 0 7
         44 0 sw 7:S 0",
        7,
        "40/42/44 2; censored 1",
    ),
    (
        "a wake-up does not explain a switch-in of which nobody knows when it was",
        "1 1@0 irq
         2 1 irqx
         5 0 sw 7:S 0
         100 1@7 waking 7
         110 1 sw 7:S 0",
        7,
        "censored 2",
    ),
];
