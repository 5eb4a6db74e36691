/*
 * The C side of tests/c_programs.rs, as C99 and as C++11: `check WHAT FILE...` does one thing with libsurety-stream and exits with 0 where all of
 * it is right. A check that fails says its line.
 */
#define _POSIX_C_SOURCE 200809L
#include "surety-stream.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                                                       \
    do {                                                                                                  \
        if (!(what)) {                                                                                    \
            fprintf(stderr, "line %d: %s; errno %d; %s\n", __LINE__, #what, errno, surety_strerror());    \
            exit(1);                                                                                      \
        }                                                                                                 \
    } while (0)

/* Fast enough that nothing waits for credit. */
#define FAST 4000000000u

static const char *path;

static struct surety_contract fast(void)
{
    struct surety_contract contract = SURETY_CONTRACT(FAST);
    contract.jitter_ns = 100000;
    contract.batch = 20000;
    return contract;
}

static surety_stream *opened(const char *mode)
{
    struct surety_contract contract = fast();
    surety_stream *stream = surety_fopen(path, mode, &contract);
    CHECK(stream != NULL);
    return stream;
}

/* The file's bytes, read as everybody does. */
static unsigned char *whole(size_t *length)
{
    FILE *file = fopen(path, "rb");
    unsigned char *bytes;
    CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
    *length = (size_t)ftell(file);
    bytes = (unsigned char *)malloc(*length + 1);
    rewind(file);
    CHECK(bytes != NULL && fread(bytes, 1, *length, file) == *length);
    fclose(file);
    return bytes;
}

/* Whether it failed with an error number and in such words. */
static int failed(int with, const char *words)
{
    int matches = errno == with && strstr(surety_strerror(), words) != NULL;
    errno = matches ? 0 : errno;
    return matches;
}

/* Reads the whole file in odd sizes and compares every byte. */
static void read_all(void)
{
    static const size_t sizes[] = {1, 3, 4095, 4096, 4097, 65536, 100001};
    size_t length, at, got, i;
    unsigned char *expected = whole(&length), *bytes = (unsigned char *)malloc(100001);
    struct surety_stats stats = SURETY_STATS;
    surety_stream *stream = opened("r");
    CHECK(bytes != NULL);
    for (at = 0, i = 0; at < length; at += got, i++) {
        got = surety_fread(bytes, 1, sizes[i % 7], stream);
        CHECK(got > 0 && memcmp(bytes, expected + at, got) == 0);
        CHECK(surety_position(stream, 0, SEEK_CUR) == (int64_t)(at + got));
        CHECK(surety_feof(stream) == (got < sizes[i % 7]) && surety_ferror(stream) == 0);
    }
    CHECK(surety_fread(bytes, 1, 1, stream) == 0 && surety_feof(stream) == 1);
    CHECK(surety_stats(stream, &stats) == 0 && stats.bytes == length && stats.batches == (length + 20479) / 20480);
    CHECK(stats.buffer >= 2 * 20480 && stats.worst_batch_ns > 0 && stats.worst_in_device_ns > 0 && stats.syncs == 0);
    CHECK(surety_fclose(stream) == 0);
    free(expected);
    free(bytes);
}

/* A file on a device that fails somewhere in it, and the same elsewhere: all bytes before, then words; how many is printed. */
static void fails(const char *elsewhere)
{
    const char *here = path;
    size_t length, at = 0, got;
    unsigned char *expected, bytes[10000];
    surety_stream *stream = opened("r"), *beside;
    path = elsewhere;
    expected = whole(&length);
    beside = opened("r");
    while ((got = surety_fread(bytes, 1, sizeof bytes, stream)) == sizeof bytes) {
        CHECK(memcmp(bytes, expected + at, got) == 0);
        at += got;
    }
    CHECK(failed(EIO, "failed: Input/output error") && strstr(surety_strerror(), here) != NULL);
    CHECK(memcmp(bytes, expected + at, got) == 0 && surety_ferror(stream) == 1 && surety_feof(stream) == 0);
    at += got;
    CHECK(surety_fread(bytes, 1, 1, stream) == 0 && failed(EIO, "reading at byte"));
    CHECK(surety_level(stream) == SURETY_OBSERVED && surety_position(stream, 0, SEEK_CUR) == (int64_t)at);
    /* What is beside it, and elsewhere in it, goes on. */
    CHECK(surety_fread(bytes, 1, sizeof bytes, beside) == sizeof bytes && memcmp(bytes, expected, sizeof bytes) == 0);
    CHECK(surety_seek(stream, 5000, SEEK_SET) == 0 && surety_ferror(stream) == 0);
    CHECK(surety_fread(bytes, 1, 7, stream) == 7 && memcmp(bytes, expected + 5000, 7) == 0);
    CHECK(surety_fclose(beside) == 0 && surety_fclose(stream) == 0);
    printf("%lu\n", (unsigned long)at);
    free(expected);
}

/* The file is made shorter, and replaced, while streams of it are open. */
static void changes(const char *another)
{
    enum { KEPT = 100000, BATCH = 20480 };
    size_t length, others, at = 0, got;
    struct surety_contract contract = fast();
    unsigned char *expected = whole(&length), *other, bytes[10000];
    const char *here = path;
    surety_stream *old = opened("r"), *stream;
    path = another;
    other = whole(&others);
    path = here;
    CHECK(surety_fread(bytes, 1, 1000, old) == 1000 && memcmp(bytes, expected, 1000) == 0);
    /* Replaced: who has it open reads the old one to its end, who opens it now the new one. */
    CHECK(rename(another, here) == 0);
    contract.access = 4096;
    contract.buffer = 2 * BATCH;
    stream = surety_fopen(here, "r", &contract);
    CHECK(stream != NULL);
    CHECK(surety_fread(bytes, 1, 1000, stream) == 1000 && memcmp(bytes, other, 1000) == 0);
    for (at = 1000; (got = surety_fread(bytes, 1, sizeof bytes, old)) > 0; at += got)
        CHECK(memcmp(bytes, expected + at, got) == 0);
    CHECK(at == length && surety_feof(old) == 1 && surety_ferror(old) == 0 && surety_fclose(old) == 0);
    /* Made shorter: nothing wrong, and then words. */
    CHECK(truncate(here, KEPT) == 0);
    for (at = 1000; (got = surety_fread(bytes, 1, sizeof bytes, stream)) == sizeof bytes; at += got)
        CHECK(memcmp(bytes, other + at, got) == 0);
    CHECK(failed(EIO, "made shorter while it was read: it ends at 100000 bytes"));
    CHECK(memcmp(bytes, other + at, got) == 0 && surety_ferror(stream) == 1 && surety_feof(stream) == 0);
    at += got;
    CHECK(at <= KEPT && at > KEPT - BATCH);
    /* Elsewhere it goes on, to its new end. */
    CHECK(surety_seek(stream, KEPT - 500, SEEK_SET) == 0);
    CHECK(surety_fread(bytes, 1, 1000, stream) == 500 && memcmp(bytes, other + KEPT - 500, 500) == 0);
    CHECK(surety_feof(stream) == 1 && surety_ferror(stream) == 0 && surety_fclose(stream) == 0);
    free(expected);
    free(other);
}

/* Has streams open that read and write, says so, and is still at it when it is killed. */
static void holds(const char *to)
{
    struct surety_contract contract = fast();
    static unsigned char bytes[20480];
    surety_stream *stream, *writer;
    const char *from = path;
    path = to;
    writer = surety_fopen(path, "w", &contract);
    path = from;
    contract.flags = SURETY_REPEATS;
    stream = surety_fopen(path, "r", &contract);
    CHECK(stream != NULL && writer != NULL);
    CHECK(surety_fread(bytes, 1, sizeof bytes, stream) == sizeof bytes);
    CHECK(surety_fwrite(bytes, 1, sizeof bytes, writer) == sizeof bytes);
    puts("holds");
    fflush(stdout);
    for (;;) {
        CHECK(surety_fread(bytes, 1, sizeof bytes, stream) == sizeof bytes);
        CHECK(surety_position(writer, 0, SEEK_CUR) > (1 << 21) || surety_fwrite(bytes, 1, sizeof bytes, writer) == sizeof bytes);
    }
}

/* Items, places, pauses and rates. */
static void moves(void)
{
    size_t length;
    unsigned char *expected = whole(&length), bytes[1000];
    struct surety_contract contract = fast();
    surety_stream *stream = opened("rb");
    int64_t end = (int64_t)length;
    /* The last item is cut by the end. */
    CHECK(surety_seek(stream, -250, SEEK_END) == 0);
    CHECK(surety_fread(bytes, 100, 10, stream) == 2 && memcmp(bytes, expected + length - 250, 250) == 0);
    CHECK(surety_feof(stream) == 1 && surety_position(stream, 0, SEEK_CUR) == end);
    CHECK(surety_seek(stream, 5000, SEEK_SET) == 0 && surety_feof(stream) == 0);
    CHECK(surety_fread(bytes, 10, 100, stream) == 100 && memcmp(bytes, expected + 5000, 1000) == 0);
    CHECK(surety_seek(stream, -1500, SEEK_CUR) == 0 && surety_position(stream, 0, SEEK_CUR) == 4500);
    /* The play-out point goes forward only. */
    CHECK(surety_position(stream, 70000, SEEK_SET) == 70000);
    CHECK(surety_fread(bytes, 1, 1000, stream) == 1000 && memcmp(bytes, expected + 70000, 1000) == 0);
    CHECK(surety_position(stream, 1, SEEK_CUR) == 71001 && surety_position(stream, -10, SEEK_END) == end - 10);
    CHECK(surety_fread(bytes, 1, 1000, stream) == 10 && memcmp(bytes, expected + length - 10, 10) == 0);
    CHECK(surety_position(stream, 0, SEEK_SET) == -1 && failed(EINVAL, "surety_seek goes back"));
    CHECK(surety_seek(stream, -1, SEEK_SET) == -1 && failed(EINVAL, "before the beginning"));
    CHECK(surety_seek(stream, INT64_MAX, SEEK_END) == -1 && failed(EOVERFLOW, "beyond"));
    CHECK(surety_seek(stream, 0, 77) == -1 && failed(EINVAL, "whence is 77"));
    CHECK(surety_seek(stream, INT64_MAX, SEEK_SET) == 0 && surety_fread(bytes, 1, 1, stream) == 0);
    CHECK(surety_feof(stream) == 1);
    CHECK(surety_seek(stream, 0, SEEK_SET) == 0 && surety_change_rate(stream, FAST / 2) == 0);
    CHECK(surety_fread(bytes, 1, 1000, stream) == 1000 && memcmp(bytes, expected, 1000) == 0);
    CHECK(surety_change_rate(stream, 0) == -1 && failed(EINVAL, "above nothing"));
    CHECK(surety_fclose(stream) == 0);
    /* Paused from the beginning: nothing comes, and reading says so. */
    contract.flags = SURETY_PAUSED | SURETY_REPEATS;
    stream = surety_fopen(path, "r", &contract);
    CHECK(surety_fread(bytes, 1, 1, stream) == 0 && surety_ferror(stream) == 1 && failed(EAGAIN, "surety_resume"));
    CHECK(surety_resume(stream) == 0 && surety_fread(bytes, 1, 1, stream) == 1 && surety_ferror(stream) == 0);
    CHECK(surety_pause(stream) == 0 && surety_resume(stream) == 0);
    /* The file begins again. */
    CHECK(surety_position(stream, end + 8, SEEK_SET) == end + 8 && surety_fread(bytes, 1, 100, stream) == 100);
    CHECK(memcmp(bytes, expected + 8, 100) == 0 && surety_fclose(stream) == 0);
    free(expected);
}

/* What cannot be opened. */
static void errors_of_opening(const char *directory)
{
    struct surety_contract contract = fast();
    CHECK(surety_fopen(NULL, "r", &contract) == NULL && failed(EINVAL, "path is NULL"));
    CHECK(surety_fopen(path, NULL, &contract) == NULL && failed(EINVAL, "mode is NULL"));
    CHECK(surety_fopen(path, "r", NULL) == NULL && failed(EINVAL, "contract is NULL"));
    CHECK(surety_fopen(path, "a", &contract) == NULL && failed(EINVAL, "no mode `a`"));
    CHECK(surety_fopen("/nowhere/at all", "r", &contract) == NULL && failed(ENOENT, "/nowhere/at all"));
    CHECK(surety_fopen("/nowhere/at all", "w", &contract) == NULL && failed(ENOENT, "/nowhere/at all"));
    CHECK(surety_fopen(directory, "r", &contract) == NULL && failed(EISDIR, "is a directory"));
    CHECK(surety_fopen(directory, "w", &contract) == NULL && failed(EISDIR, "is a directory"));
    CHECK(surety_fopen("/dev/null", "r", &contract) == NULL && failed(EINVAL, "name a file"));
    contract.rate = 0;
    CHECK(surety_fopen(path, "r", &contract) == NULL && failed(EINVAL, "rate"));
    CHECK(surety_fopen(path, "w", &contract) == NULL && failed(EINVAL, "rate"));
    contract = fast();
    contract.size = 0;
    CHECK(surety_fopen(path, "r", &contract) == NULL && failed(EINVAL, "initialise it with SURETY_CONTRACT"));
    contract = fast();
    contract.flags = 64;
    CHECK(surety_fopen(path, "r", &contract) == NULL && failed(EINVAL, "unknown flags"));
    contract = fast();
    contract.jitter_ns = (uint64_t)-1;
    CHECK(surety_fopen(path, "r", &contract) == NULL && failed(EINVAL, "negative"));
    contract.flags = SURETY_PAUSED;
    contract.jitter_ns = 0;
    CHECK(surety_fopen(path, "r+", &contract) == NULL && failed(EINVAL, "SURETY_PAUSED"));
}

/* What is wrong is said, and nothing worse. */
static void errors(void)
{
    struct surety_stats stats = SURETY_STATS;
    surety_stream *stream = opened("r"), *writer = opened("r+");
    char line[8];
    CHECK(surety_fread(NULL, 1, 1, stream) == 0 && failed(EINVAL, "no memory"));
    CHECK(surety_fread(line, (size_t)-1, 2, stream) == 0 && failed(EINVAL, "more than memory"));
    CHECK(surety_fread(line, (size_t)-1, 1, stream) == 0 && failed(EINVAL, "no memory of that size"));
    CHECK(surety_fread(NULL, 0, 1, stream) == 0 && errno == 0 && surety_fread(NULL, 1, 0, stream) == 0);
    CHECK(surety_stats(stream, NULL) == -1 && failed(EINVAL, "stats is NULL"));
    stats.size = 8;
    CHECK(surety_stats(stream, &stats) == -1 && failed(EINVAL, "SURETY_STATS"));
    CHECK(surety_caveat(stream, 0, NULL, 8) == -1 && failed(EINVAL, "no memory"));
    CHECK(surety_fwrite(line, 1, 1, stream) == 0 && failed(EBADF, "not written"));
    CHECK(surety_fflush(stream) == -1 && failed(EBADF, "not written"));
    CHECK(surety_level_name(-1) == NULL && failed(EINVAL, "no level -1") && surety_level_name(4) == NULL);
    CHECK(strcmp(surety_level_name(SURETY_OBSERVED), "observed") == 0);
    CHECK(strcmp(surety_level_name(SURETY_SCHEDULED), "scheduled") == 0);
    CHECK(strcmp(surety_level_name(SURETY_ADMITTED), "admitted") == 0);
    CHECK(strcmp(surety_level_name(SURETY_VERIFIED), "verified") == 0);
    CHECK(strcmp(surety_version(), SURETY_STREAM_VERSION) == 0);

    CHECK(surety_fread(line, 1, 1, writer) == 0 && failed(EBADF, "is written"));
    CHECK(surety_seek(writer, 0, SEEK_SET) == -1 && failed(EBADF, "is written"));
    CHECK(surety_pause(writer) == -1 && surety_resume(writer) == -1 && failed(EBADF, "is written"));
    CHECK(surety_position(writer, 1, SEEK_CUR) == -1 && surety_position(writer, 0, SEEK_CUR) == 0);
    CHECK(surety_fwrite(NULL, 1, 1, writer) == 0 && failed(EINVAL, "no memory"));
    CHECK(surety_fclose(writer) == 0);

    /* After the end, and of what never was. */
    CHECK(surety_fclose(stream) == 0);
    CHECK(surety_fclose(stream) == -1 && failed(EBADF, "closed"));
    CHECK(surety_fread(line, 1, 1, stream) == 0 && failed(EBADF, "closed"));
    CHECK(surety_feof(stream) == -1 && surety_ferror(stream) == -1 && surety_level(stream) == -1);
    CHECK(surety_fread(line, 1, 1, (surety_stream *)line) == 0 && failed(EBADF, "never opened"));
    CHECK(surety_fclose(NULL) == -1 && failed(EINVAL, "stream is NULL"));
    CHECK(surety_position(NULL, 0, SEEK_CUR) == -1 && surety_seek(NULL, 0, SEEK_SET) == -1);
    CHECK(surety_pause(NULL) == -1 && surety_resume(NULL) == -1 && surety_change_rate(NULL, 1) == -1);
    CHECK(surety_stats(NULL, NULL) == -1 && surety_caveat(NULL, 0, line, 8) == -1 && surety_fflush(NULL) == -1);
}

/* Level and reasons, for the test to judge. */
static void level(void)
{
    surety_stream *stream = opened("r");
    char line[256], cut[6];
    size_t index;
    CHECK(surety_level(stream) >= 0);
    puts(surety_level_name(surety_level(stream)));
    for (index = 0; surety_caveat(stream, index, line, sizeof line) > 0; index++) {
        int length = surety_caveat(stream, index, NULL, 0);
        CHECK(surety_caveat(stream, index, cut, sizeof cut) == length && length > 5);
        CHECK(strlen(cut) == 5 && strncmp(cut, line, 5) == 0);
        puts(line);
    }
    read_all();
    CHECK(surety_caveat(stream, index, line, sizeof line) == 0 && line[0] == 0 && surety_fclose(stream) == 0);
}

/* The file has these bytes. */
static void has(const unsigned char *bytes, size_t length, int exactly)
{
    size_t found;
    unsigned char *written = whole(&found);
    CHECK((exactly ? found == length : found >= length) && memcmp(written, bytes, length) == 0);
    free(written);
}

/* Writes what is in FROM in odd sizes, anew and then over a part of it. */
static void writes(const char *from)
{
    const char *to = path;
    size_t length, at = 0, size;
    struct surety_contract contract = fast();
    struct surety_stats stats = SURETY_STATS;
    unsigned char *bytes;
    surety_stream *stream;
    path = from;
    bytes = whole(&length);
    path = to;
    contract.length = length;
    stream = surety_fopen(to, "w", &contract);
    CHECK(stream != NULL);
    for (size = 1; at < length; at += size, size = size * 3 % 100003) {
        size = size < length - at ? size : length - at;
        CHECK(surety_fwrite(bytes + at, 1, size, stream) == size && surety_ferror(stream) == 0);
        CHECK(surety_position(stream, 0, SEEK_CUR) == (int64_t)(at + size));
    }
    CHECK(surety_fflush(stream) == 0 && surety_stats(stream, &stats) == 0 && surety_level(stream) >= 0);
    CHECK(stats.batches > 1 && stats.bytes <= length && surety_feof(stream) == 0);
    has(bytes, length, 0);
    CHECK(surety_fclose(stream) == 0);
    has(bytes, length, 1);

    stream = opened("r+");
    CHECK(surety_fwrite("over", 2, 2, stream) == 2 && surety_fclose(stream) == 0);
    memcpy(bytes, "over", 4);
    has(bytes, length, 1);
    free(bytes);
}

/* Plays so many accesses at the rate of the contract; how often the disk rested meanwhile. */
static uint64_t played(surety_stream *stream, const unsigned char *expected, size_t length, unsigned accesses, size_t *at)
{
    enum { ACCESS = 8192, NS = 1024000 };
    static unsigned char bytes[ACCESS];
    struct surety_stats before = SURETY_STATS, after = SURETY_STATS;
    struct timespec due;
    unsigned i;
    size_t j;
    CHECK(surety_stats(stream, &before) == 0 && clock_gettime(CLOCK_MONOTONIC, &due) == 0);
    for (i = 0; i < accesses; i++) {
        CHECK(surety_fread(bytes, 1, ACCESS, stream) == ACCESS);
        for (j = 0; j < ACCESS; j++, *at = (*at + 1) % length)
            CHECK(bytes[j] == expected[*at]);
        due.tv_nsec += NS;
        due.tv_sec += due.tv_nsec / 1000000000;
        due.tv_nsec %= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    }
    CHECK(surety_stats(stream, &after) == 0 && after.rested_ns >= after.longest_rest_ns);
    return after.rests - before.rests;
}

/* The mode is changed while it plays, again and again: the disk rests rarely with the longest batches, and no byte is lost. */
static void modes(void)
{
    struct surety_contract contract = SURETY_CONTRACT(8000000);
    size_t length, at = 0;
    unsigned char *expected = whole(&length);
    uint64_t longest, steady, again;
    surety_stream *stream;
    contract.access = 8192;
    contract.batch = 16384;
    contract.buffer = 1048576;
    contract.jitter_ns = 10000000;
    contract.bound_ns = 60000000000u;
    contract.flags = SURETY_REPEATS;
    stream = surety_fopen(path, "r", &contract);
    CHECK(stream != NULL && surety_set_mode(stream, SURETY_MODE_LONGEST) == 0);
    longest = played(stream, expected, length, 384, &at);
    CHECK(surety_level(stream) <= SURETY_SCHEDULED);
    CHECK(surety_set_mode(stream, SURETY_MODE_STEADY) == 0);
    steady = played(stream, expected, length, 384, &at);
    CHECK(surety_set_mode(stream, SURETY_MODE_LONGEST) == 0);
    again = played(stream, expected, length, 384, &at);
    /* 3 MiB are three buffers, and 192 batches. */
    CHECK(longest <= 20 && again <= 20 && steady >= 60);
    CHECK(surety_set_mode(stream, 2) == -1 && failed(EINVAL, "no mode 2; they are SURETY_MODE_STEADY"));
    CHECK(surety_set_mode(stream, -1) == -1 && failed(EINVAL, "no mode -1"));
    CHECK(surety_set_mode(NULL, SURETY_MODE_STEADY) == -1 && failed(EINVAL, "stream is NULL"));
    CHECK(surety_fclose(stream) == 0);
    CHECK(surety_set_mode(stream, SURETY_MODE_STEADY) == -1 && failed(EBADF, "closed"));
    free(expected);
}

static int threads_of_process(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = -2; /* . and .. */
    CHECK(tasks != NULL);
    while (readdir(tasks) != NULL)
        count++;
    closedir(tasks);
    return count;
}

static unsigned char *shared_bytes;
static size_t shared_length;
static surety_stream *shared_stream;

/* Opens, reads a part and closes, again and again; and takes its bytes of a stream that all have. */
static void *one_of_many(void *number)
{
    unsigned seed = *(unsigned *)number;
    unsigned char bytes[3000];
    size_t count = 0;
    int round;
    for (round = 0; round < 12; round++) {
        surety_stream *stream = opened("r");
        size_t from;
        char words[32];
        seed = seed * 1103515245u + 12345u;
        from = seed % (shared_length - sizeof bytes);
        CHECK(surety_seek(stream, (int64_t)from, SEEK_SET) == 0);
        CHECK(surety_fread(bytes, 1, sizeof bytes, stream) == sizeof bytes);
        CHECK(memcmp(bytes, shared_bytes + from, sizeof bytes) == 0);
        count += surety_fread(bytes, 1, 100, shared_stream);
        /* Of each thread its own words. */
        snprintf(words, sizeof words, "whence is %u;", 70 + seed % 1000);
        CHECK(surety_seek(stream, 0, (int)(70 + seed % 1000)) == -1 && failed(EINVAL, words));
        CHECK(surety_fclose(stream) == 0);
    }
    CHECK(count == 1200);
    return NULL;
}

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
    (void)number;
    signals++;
}

/* Handlers of the program run on threads of the program: where those do not want a signal, it waits. */
static void signals_wait(void)
{
    struct timespec moment = {0, 10000000};
    struct sigaction action;
    sigset_t blocked, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, &blocked, &before) == 0 && kill(getpid(), SIGUSR1) == 0);
    nanosleep(&moment, NULL);
    CHECK(signals == 0);
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0 && signals == 1);
}

/* A child has no thread that fetches: what it has of the parent fails, what it opens itself does not. */
static void forks(void)
{
    unsigned char byte[4];
    pid_t child = fork();
    int status;
    CHECK(child >= 0);
    if (child == 0) {
        surety_stream *stream;
        CHECK(surety_fread(byte, 1, 4, shared_stream) == 0 && failed(EBADF, "fork"));
        CHECK(surety_fclose(shared_stream) == -1 && failed(EBADF, "fork"));
        stream = opened("r");
        CHECK(surety_fread(byte, 1, 4, stream) == 4 && memcmp(byte, shared_bytes, 4) == 0);
        CHECK(surety_fclose(stream) == 0);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void threads(void)
{
    enum { MANY = 8 };
    pthread_t thread[MANY];
    unsigned number[MANY];
    int i, alone = threads_of_process();
    struct timespec moment = {0, 10000000};
    unsigned char byte[4];
    shared_bytes = whole(&shared_length);
    shared_stream = opened("r");
    CHECK(threads_of_process() == alone + 1);
    signals_wait();
    for (i = 0; i < MANY; i++) {
        number[i] = (unsigned)i;
        CHECK(pthread_create(&thread[i], NULL, one_of_many, &number[i]) == 0);
    }
    for (i = 0; i < MANY; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    CHECK(surety_position(shared_stream, 0, SEEK_CUR) == MANY * 1200);
    CHECK(surety_fread(byte, 1, 4, shared_stream) == 4 && memcmp(byte, shared_bytes + MANY * 1200, 4) == 0);
    forks();
    CHECK(surety_fread(byte, 1, 4, shared_stream) == 4 && surety_fclose(shared_stream) == 0);
    /* The kernel takes a moment to be done with a thread that was joined. */
    for (i = 0; i < 500 && threads_of_process() > alone; i++)
        nanosleep(&moment, NULL);
    CHECK(threads_of_process() == alone);
    free(shared_bytes);
}

#define SIZE(of) printf(#of " %u\n", (unsigned)sizeof(struct of))
#define FIELD(of, name) printf(#of "." #name " %u %u\n", (unsigned)offsetof(struct of, name), (unsigned)sizeof of.name)

/* Where the fields are and how large they are. */
static void layout(void)
{
    struct surety_contract surety_contract = SURETY_CONTRACT(7);
    struct surety_stats surety_stats = SURETY_STATS;
    CHECK(surety_contract.rate == 7 && surety_contract.size == sizeof surety_contract);
    CHECK(surety_contract.flags == 0 && surety_stats.size == sizeof surety_stats);
    SIZE(surety_contract);
    FIELD(surety_contract, size);
    FIELD(surety_contract, rate);
    FIELD(surety_contract, access);
    FIELD(surety_contract, jitter_ns);
    FIELD(surety_contract, batch);
    FIELD(surety_contract, buffer);
    FIELD(surety_contract, bound_ns);
    FIELD(surety_contract, length);
    FIELD(surety_contract, flush_ns);
    FIELD(surety_contract, flags);
    SIZE(surety_stats);
    FIELD(surety_stats, size);
    FIELD(surety_stats, batches);
    FIELD(surety_stats, bytes);
    FIELD(surety_stats, worst_batch_ns);
    FIELD(surety_stats, worst_in_device_ns);
    FIELD(surety_stats, beyond_bound);
    FIELD(surety_stats, least_ahead);
    FIELD(surety_stats, under_runs);
    FIELD(surety_stats, waited_queue_ns);
    FIELD(surety_stats, waited_device_ns);
    FIELD(surety_stats, waited_cpu_ns);
    FIELD(surety_stats, buffer);
    FIELD(surety_stats, syncs);
    FIELD(surety_stats, worst_sync_ns);
    FIELD(surety_stats, waited_serving_cpu_ns);
    FIELD(surety_stats, waited_page_cache_ns);
    FIELD(surety_stats, waited_metadata_ns);
    FIELD(surety_stats, rests);
    FIELD(surety_stats, rested_ns);
    FIELD(surety_stats, longest_rest_ns);
    printf("flags %u %u\n", SURETY_REPEATS, SURETY_PAUSED);
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "", *other = count > 3 ? arguments[3] : "";
    path = count > 2 ? arguments[2] : "";
    if (strcmp(what, "read") == 0) {
        read_all();
    } else if (strcmp(what, "move") == 0) {
        moves();
    } else if (strcmp(what, "errors") == 0) {
        errors_of_opening(other);
        errors();
    } else if (strcmp(what, "level") == 0) {
        level();
    } else if (strcmp(what, "write") == 0) {
        writes(other);
    } else if (strcmp(what, "threads") == 0) {
        threads();
    } else if (strcmp(what, "fails") == 0) {
        fails(other);
    } else if (strcmp(what, "modes") == 0) {
        modes();
    } else if (strcmp(what, "changes") == 0) {
        changes(other);
    } else if (strcmp(what, "holds") == 0) {
        holds(other);
    } else if (strcmp(what, "layout") == 0) {
        layout();
    } else {
        return 2;
    }
    return 0;
}
