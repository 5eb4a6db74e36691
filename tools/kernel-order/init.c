// The first process of a guest: has null_blk serve scripts of requests under each I/O scheduler, and writes what the tracepoints of the block
// layer told to the serial console. `record` builds and boots it.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUEUE "/sys/block/nullb0/queue/"
#define TRACING "/sys/kernel/tracing/"
#define SECTOR 512ull
enum { REALTIME = 1, BEST_EFFORT = 2, IDLE = 3 };

struct request {
  int is_write;
  uint64_t sector;
  uint32_t sectors;
};

// What a process does that waits for each access before the next.
struct habit {
  int count;
  uint64_t first; // where its accesses begin, one behind the other
  uint32_t sectors;
  int is_random, is_write;
  int think_us;
};

static char *buffer;
static uint64_t state;
static int children;

static uint64_t below(uint32_t limit) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (state >> 33) % limit;
}

// Places are 16 sectors apart, so that requests of 8 do not touch.
static uint64_t anywhere(void) { return below(1 << 16) * 16; }

static void failed(const char *what) { printf("ERROR %s: %s\n", what, strerror(errno)); }

static void put(const char *path, const char *text) {
  int file = open(path, O_WRONLY);
  if (file < 0 || write(file, text, strlen(text)) < 0) failed(path);
  if (file >= 0) close(file);
}

static void show(const char *path) {
  char text[4096];
  ssize_t length;
  int file = open(path, O_RDONLY);
  if (file < 0) return failed(path);
  while ((length = read(file, text, sizeof text)) > 0) fwrite(text, 1, length, stdout);
  close(file);
}

static void load(const char *path, const char *parameters) {
  int file = open(path, O_RDONLY);
  if (file < 0) return; // built into the kernel
  if (syscall(SYS_finit_module, file, parameters, 0)) failed(path);
  close(file);
}

static int device(void) {
  int file = open("/dev/nullb0", O_RDWR | O_DIRECT);
  if (file < 0) failed("/dev/nullb0");
  return file;
}

// Sets the I/O priority of the current thread and has the trace tell it: events of 6.1 do not.
static void priority(int class, int level) {
  char text[32];
  if (syscall(SYS_ioprio_set, 1, 0, class << 13 | level)) failed("ioprio_set");
  snprintf(text, sizeof text, "priority %s %d", (const char *[]){"none", "rt", "be", "idle"}[class], level);
  put(TRACING "trace_marker", text);
}

// Submits requests without waiting for them.
static void submit(const struct request *all, int count, int pause_ns) {
  aio_context_t context = 0;
  struct io_event events[64];
  int file = device(), done = 0;
  if (syscall(SYS_io_setup, 1024, &context)) failed("io_setup");
  for (int i = 0; i < count; i++) {
    struct iocb block = {
        .aio_lio_opcode = all[i].is_write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
        .aio_fildes = file,
        .aio_buf = (uintptr_t)buffer,
        .aio_nbytes = all[i].sectors * SECTOR,
        .aio_offset = all[i].sector * SECTOR,
    };
    struct iocb *one = &block;
    if (syscall(SYS_io_submit, context, 1, &one) != 1) return failed("io_submit");
    struct timespec pause = {0, pause_ns};
    if (pause_ns) nanosleep(&pause, 0);
  }
  while (done < count) {
    int more = syscall(SYS_io_getevents, context, 1, 64, events, 0);
    if (more <= 0) return failed("io_getevents");
    done += more;
  }
}

static void access_each(struct habit habit) {
  int file = device();
  for (int i = 0; i < habit.count; i++) {
    uint64_t sector = habit.is_random ? anywhere() : habit.first + (uint64_t)i * habit.sectors;
    size_t length = habit.sectors * SECTOR;
    ssize_t done = habit.is_write ? pwrite(file, buffer, length, sector * SECTOR) : pread(file, buffer, length, sector * SECTOR);
    if (done != (ssize_t)length) failed("access");
    if (habit.think_us) usleep(habit.think_us);
  }
}

static int begins_child(uint64_t seed) {
  fflush(stdout);
  children++;
  if (fork()) return 0;
  state = seed;
  return 1;
}

static void anywhere_of(int count, int pause_ns) {
  static struct request all[512];
  for (int i = 0; i < count; i++) {
    int is_write = below(3) == 0;
    all[i] = (struct request){is_write, anywhere(), 8};
  }
  submit(all, count, pause_ns);
}

static void mixed(void) {
  if (begins_child(11)) {
    anywhere_of(420, 0);
    _exit(0);
  }
}

static void classes(void) {
  for (int c = 0; c < 3; c++)
    if (begins_child(20 + c)) {
      priority((int[]){REALTIME, BEST_EFFORT, IDLE}[c], 4);
      anywhere_of(140, 50000);
      _exit(0);
    }
}

static void streams(void) {
  static struct request all[105];
  for (int c = 0; c < 4; c++)
    if (begins_child(30 + c)) {
      for (int i = 0; i < 105; i++) all[i] = (struct request){0, c < 3 ? 200000ull * c + 16 * i : anywhere(), 8};
      submit(all, 105, 50000);
      _exit(0);
    }
}

static void habits(const struct habit *all, int count, uint64_t seed) {
  for (int c = 0; c < count; c++)
    if (begins_child(seed + c)) {
      access_each(all[c]);
      _exit(0);
    }
}

static void closed(void) {
  const struct habit all[] = {
      {150, 0, 64, 0, 0, 0},  {150, 300000, 64, 0, 0, 0}, {80, 0, 8, 1, 0, 0},
      {60, 700000, 16, 0, 0, 3000}, {60, 900000, 128, 0, 1, 0},
  };
  habits(all, 5, 40);
}

// A program that starts, beside three readers.
static void starting(void) {
  const struct habit readers[] = {{250, 0, 128, 0, 0, 0}, {250, 250000, 128, 0, 0, 0}, {250, 500000, 128, 0, 0, 0}};
  habits(readers, 3, 50);
  if (begins_child(53)) {
    usleep(100000);
    access_each((struct habit){120, 0, 8, 1, 0, 500});
    _exit(0);
  }
}

static void weights(void) {
  for (int c = 0; c < 4; c++)
    if (begins_child(60 + c)) {
      priority(BEST_EFFORT, (int[]){0, 2, 4, 7}[c]);
      access_each((struct habit){150, 250000ull * c, 64, c == 3, 0, 0});
      _exit(0);
    }
}

// In each round so many processes come, each with one access, while the device is at the first one's: nobody comes where a tag is set free.
static void arrivals(void) {
  struct timespec base;
  clock_gettime(CLOCK_MONOTONIC, &base);
  for (int c = 0; c < 240; c++)
    if (begins_child(100 + c)) {
      int file = device();
      uint64_t sector = anywhere(), after = 300000000ull + c / 24 * 50000000ull + c % 24 * 36000ull + base.tv_nsec;
      struct timespec due = {base.tv_sec + after / 1000000000, after % 1000000000};
      prctl(PR_SET_TIMERSLACK, 1);
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, 0);
      ssize_t done = c % 4 ? pread(file, buffer, 4096, sector * SECTOR) : pwrite(file, buffer, 4096, sector * SECTOR);
      if (done != 4096) failed("access");
      _exit(0);
    }
}

// One of the idle class waits for one that leaves the device idle for 2.5 ms each time.
static void handover(void) {
  for (int c = 0; c < 2; c++)
    if (begins_child(70 + c)) {
      priority(c ? IDLE : REALTIME, 4);
      access_each((struct habit){100, 0, 8, 1, 0, c ? 0 : 2500});
      _exit(0);
    }
}

static void event(const char *name, const char *text) {
  char path[128];
  snprintf(path, sizeof path, TRACING "events/%s/enable", name);
  put(path, text);
}

static void record(const char *scheduler, const char *name, void (*script)(void), int fair) {
  put(QUEUE "scheduler", "none");
  put(QUEUE "scheduler", scheduler);
  // Twice: limits follow from the number before.
  int is_none = !strcmp(scheduler, "none");
  if (!is_none) put(QUEUE "nr_requests", "1000");
  if (!is_none) put(QUEUE "nr_requests", "1024");
  event("block/block_bio_queue", is_none ? "1" : "0");
  if (fair) put(QUEUE "iosched/low_latency", "0");
  put(TRACING "trace_clock", "mono"); // forgets what was recorded
  usleep(1000000);
  put(TRACING "tracing_on", "1");
  children = 0;
  script();
  while (children-- > 0) wait(0);
  put(TRACING "tracing_on", "0");
  printf("BEGIN %s-%s%s\n", scheduler, name, fair ? "-low_latency-0" : "");
  show(TRACING "trace");
  printf("END\n");
  fflush(stdout);
}

static const struct {
  const char *name;
  void (*script)(void);
  int from; // the first of the schedulers below
} SCRIPTS[] = {
    {"mixed", mixed, 0},       {"classes", classes, 1},   {"streams", streams, 1}, {"closed", closed, 1},
    {"handover", handover, 1}, {"starting", starting, 3}, {"weights", weights, 3}, {"arrivals", arrivals, 0},
};

int main(void) {
  mount("proc", "/proc", "proc", 0, 0);
  mount("sysfs", "/sys", "sysfs", 0, 0);
  mount("devtmpfs", "/dev", "devtmpfs", 0, 0);
  mount("tracefs", TRACING, "tracefs", 0, 0);
  int console = open("/dev/ttyS0", O_WRONLY);
  dup2(console, 1);
  const char *modules[] = {"/configfs.ko", "/mq-deadline.ko", "/kyber-iosched.ko", "/bfq.ko"};
  for (int i = 0; i < 4; i++) load(modules[i], "");
  load("/null_blk.ko", "queue_mode=2 submit_queues=1 hw_queue_depth=1 irqmode=2 completion_nsec=1000000 gb=1 nr_devices=1");
  sleep(6);
  buffer = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  memset(buffer, 1, 1 << 20);
  put(TRACING "buffer_size_kb", "8192");
  const char *events[] = {"block/block_rq_insert", "block/block_rq_issue", "block/block_rq_complete", "timer/hrtimer_expire_entry",
                          "sched/sched_process_exit"};
  for (int i = 0; i < 5; i++) event(events[i], "1");
  printf("VERSION ");
  show("/proc/sys/kernel/osrelease");
  for (unsigned i = 0; i < sizeof SCRIPTS / sizeof *SCRIPTS; i++) {
    const char *schedulers[] = {"none", "mq-deadline", "kyber", "bfq"};
    for (int s = SCRIPTS[i].from; s < 4; s++) record(schedulers[s], SCRIPTS[i].name, SCRIPTS[i].script, 0);
    record("bfq", SCRIPTS[i].name, SCRIPTS[i].script, 1);
  }
  printf("DONE\n");
  fflush(stdout);
  reboot(RB_POWER_OFF);
}
