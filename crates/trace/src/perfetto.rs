//! Field numbers of Perfetto's published schema (`protos/perfetto/trace`), said once for the reader and the writer.
//!
//! A file is one message `Trace` of packets. Every constant is named after its message and its field there.

/// `Trace.packet`.
pub(crate) const PACKET: u32 = 1;

/// `TracePacket`.
pub(crate) mod packet {
    pub(crate) const FTRACE_EVENTS: u32 = 1;
    pub(crate) const PROCESS_TREE: u32 = 2;
    pub(crate) const CLOCK_SNAPSHOT: u32 = 6;
    pub(crate) const TIMESTAMP: u32 = 8;
    pub(crate) const SEQUENCE_ID: u32 = 10;
    pub(crate) const TRACK_EVENT: u32 = 11;
    pub(crate) const INTERNED_DATA: u32 = 12;
    pub(crate) const SEQUENCE_FLAGS: u32 = 13;
    pub(crate) const FTRACE_STATS: u32 = 34;
    pub(crate) const PREVIOUS_DROPPED: u32 = 42;
    pub(crate) const SYSTEM_INFO: u32 = 45;
    pub(crate) const COMPRESSED: u32 = 50;
    pub(crate) const TRACK_DESCRIPTOR: u32 = 60;
    /// Fields of a packet that are integers; all others are messages, texts or bytes.
    pub(crate) const INTEGERS: &[u32] =
        &[TIMESTAMP, 3, SEQUENCE_ID, SEQUENCE_FLAGS, 41, PREVIOUS_DROPPED, 58, 79, 87, 98];
}

/// `FtraceEventBundle`.
pub(crate) mod bundle {
    pub(crate) const CPU: u32 = 1;
    pub(crate) const EVENT: u32 = 2;
    pub(crate) const LOST: u32 = 3;
    pub(crate) const COMPACT: u32 = 4;
    pub(crate) const CLOCK: u32 = 5;
    pub(crate) const CLOCK_TIME: u32 = 6;
    pub(crate) const BOOT_TIME: u32 = 7;
    pub(crate) const ERROR: u32 = 8;
}

/// `FtraceEventBundle.CompactSched`.
pub(crate) mod compact {
    pub(crate) const SWITCH_TIME: u32 = 1;
    pub(crate) const SWITCH_STATE: u32 = 2;
    pub(crate) const SWITCH_PID: u32 = 3;
    pub(crate) const SWITCH_PRIO: u32 = 4;
    pub(crate) const STRINGS: u32 = 5;
    pub(crate) const SWITCH_NAME: u32 = 6;
    pub(crate) const WAKING_TIME: u32 = 7;
    pub(crate) const WAKING_PID: u32 = 8;
    pub(crate) const WAKING_CPU: u32 = 9;
    pub(crate) const WAKING_PRIO: u32 = 10;
    pub(crate) const WAKING_NAME: u32 = 11;
}

/// `FtraceEvent`: its own fields and, by kind, the message of the event.
pub(crate) mod event {
    pub(crate) const TIMESTAMP: u32 = 1;
    pub(crate) const PID: u32 = 2;
    pub(crate) const COMMON_FLAGS: u32 = 5;
    pub(crate) const PRINT: u32 = 3;
    pub(crate) const SCHED_SWITCH: u32 = 4;
    pub(crate) const CPU_FREQUENCY: u32 = 11;
    pub(crate) const CPU_IDLE: u32 = 13;
    pub(crate) const SCHED_WAKEUP: u32 = 17;
    pub(crate) const SCHED_BLOCKED_REASON: u32 = 18;
    pub(crate) const SCHED_WAKING: u32 = 20;
    pub(crate) const IPI_ENTRY: u32 = 21;
    pub(crate) const IPI_EXIT: u32 = 22;
    pub(crate) const IPI_RAISE: u32 = 23;
    pub(crate) const SOFTIRQ_ENTRY: u32 = 24;
    pub(crate) const SOFTIRQ_EXIT: u32 = 25;
    pub(crate) const SOFTIRQ_RAISE: u32 = 26;
    pub(crate) const IRQ_ENTRY: u32 = 36;
    pub(crate) const IRQ_EXIT: u32 = 37;
    pub(crate) const BLOCK_RQ_ISSUE: u32 = 45;
    pub(crate) const SCHED_WAKEUP_NEW: u32 = 114;
    pub(crate) const BLOCK_BIO_BACKMERGE: u32 = 115;
    pub(crate) const BLOCK_BIO_FRONTMERGE: u32 = 118;
    pub(crate) const BLOCK_BIO_QUEUE: u32 = 119;
    pub(crate) const BLOCK_GETRQ: u32 = 122;
    pub(crate) const BLOCK_RQ_COMPLETE: u32 = 125;
    pub(crate) const BLOCK_RQ_INSERT: u32 = 126;
    /// No number of the schema, which has no message for it: it goes as a generic event.
    pub(crate) const BLOCK_RQ_MERGE: u32 = 127;
    pub(crate) const BLOCK_RQ_REQUEUE: u32 = 129;
    pub(crate) const TASK_NEWTASK: u32 = 235;
    pub(crate) const TASK_RENAME: u32 = 236;
    pub(crate) const SCHED_EXEC: u32 = 237;
    pub(crate) const SCHED_EXIT: u32 = 238;
    pub(crate) const SCHED_FORK: u32 = 239;
    pub(crate) const SCHED_FREE: u32 = 240;
    pub(crate) const GENERIC: u32 = 327;
    pub(crate) const SCHED_MIGRATE: u32 = 491;
    pub(crate) const HRTIMER_START: u32 = 551;
    pub(crate) const HRTIMER_CANCEL: u32 = 552;
    pub(crate) const HRTIMER_EXPIRE: u32 = 553;
    pub(crate) const HRTIMER_EXPIRE_EXIT: u32 = 554;
    pub(crate) const LOCAL_TIMER_ENTRY: u32 = 559;
    pub(crate) const LOCAL_TIMER_EXIT: u32 = 560;
}

/// `GenericFtraceEvent` and its `Field`.
pub(crate) mod generic {
    pub(crate) const NAME: u32 = 1;
    pub(crate) const FIELD: u32 = 2;
    pub(crate) const FIELD_NAME: u32 = 1;
    pub(crate) const FIELD_TEXT: u32 = 3;
    pub(crate) const FIELD_INTEGER: u32 = 4;
    pub(crate) const FIELD_COUNT: u32 = 5;
}

/// `InternedData.kernel_symbols`, each with an index and the symbol's name.
pub(crate) mod interned {
    pub(crate) const KERNEL_SYMBOLS: u32 = 26;
    pub(crate) const INDEX: u32 = 1;
    pub(crate) const TEXT: u32 = 2;
}

/// `FtraceStats` and its `FtraceCpuStats`.
pub(crate) mod stats {
    pub(crate) const PHASE: u32 = 1;
    /// The value of the phase at the recording's end; at its start it is 1.
    pub(crate) const PHASE_END: u64 = 2;
    pub(crate) const CPU: u32 = 2;
    pub(crate) const CPU_NUMBER: u32 = 1;
    pub(crate) const OVERRUN: u32 = 3;
    pub(crate) const COMMIT_OVERRUN: u32 = 4;
    pub(crate) const DROPPED: u32 = 8;
}

/// `SystemInfo` and its `Utsname`.
pub(crate) mod system {
    pub(crate) const UTSNAME: u32 = 1;
    pub(crate) const SYSNAME: u32 = 1;
    pub(crate) const RELEASE: u32 = 3;
}

/// `ProcessTree` and its `Process`.
pub(crate) mod processes {
    pub(crate) const PROCESS: u32 = 1;
    pub(crate) const PID: u32 = 1;
    pub(crate) const PARENT: u32 = 2;
    pub(crate) const COMMAND: u32 = 3;
}

/// `ClockSnapshot`, its `Clock`, and the numbers of clocks.
pub(crate) mod clocks {
    pub(crate) const CLOCK: u32 = 1;
    pub(crate) const PRIMARY: u32 = 2;
    pub(crate) const ID: u32 = 1;
    pub(crate) const TIME: u32 = 2;
    pub(crate) const MONOTONIC: u64 = 3;
    pub(crate) const MONOTONIC_RAW: u64 = 5;
    pub(crate) const BOOT: u64 = 6;
}

/// `TrackDescriptor`, `CounterDescriptor`, `TrackEvent` and `DebugAnnotation`.
pub(crate) mod track {
    pub(crate) const UUID: u32 = 1;
    pub(crate) const NAME: u32 = 2;
    pub(crate) const PARENT: u32 = 5;
    pub(crate) const COUNTER: u32 = 8;
    pub(crate) const COUNTER_UNIT: u32 = 3;
    /// The value of the unit: nanoseconds.
    pub(crate) const UNIT_TIME_NS: u64 = 1;
    pub(crate) const EVENT_TYPE: u32 = 9;
    pub(crate) const EVENT_TRACK: u32 = 11;
    pub(crate) const EVENT_NAME: u32 = 23;
    pub(crate) const EVENT_COUNTER: u32 = 30;
    pub(crate) const EVENT_ANNOTATION: u32 = 4;
    pub(crate) const ANNOTATION_NAME: u32 = 10;
    pub(crate) const ANNOTATION_INTEGER: u32 = 4;
    pub(crate) const SLICE_BEGIN: u64 = 1;
    pub(crate) const SLICE_END: u64 = 2;
    pub(crate) const INSTANT: u64 = 3;
    pub(crate) const COUNTER_VALUE: u64 = 4;
}
