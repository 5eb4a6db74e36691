/*
 * libsurety-stream: a program says "1 MB/s of this file" and gets it, whatever else the disk does.
 *
 * A stream is fetched ahead of the program into locked memory, past the page cache, at real-time I/O priority, at the rate of
 * its contract and no faster; or written so behind it. Without the privileges for that it works too, at a lower level, and says so: surety_level,
 * surety_caveat.
 *
 *     struct surety_contract contract = SURETY_CONTRACT(1000000);
 *     surety_stream *movie = surety_fopen("movie.mpg", "r", &contract);
 *     size_t got;
 *     if (movie == NULL)
 *         errx(1, "%s", surety_strerror());
 *     while ((got = surety_fread(frame, 1, sizeof frame, movie)) > 0)
 *         show(frame, got);
 *     surety_fclose(movie);
 *
 * Failures: a function that fails returns NULL, -1 or, surety_fread and surety_fwrite, fewer items than asked for; it sets errno and leaves a
 * sentence for surety_strerror. NULL for a stream, a text, a structure or memory is a failure (EINVAL). So is a stream that was
 * closed, or is for the other direction (EBADF): a stream is never read through its pointer, and the pointer of a closed one is not given again.
 *
 * Threads: any thread may call any function. Calls with the same stream wait for each other, as those of stdio do; a call that
 * waits for the disk keeps the others waiting. Signals do not interrupt calls.
 *
 * Processes: the streams of one disk are served by one thread of the process. It begins with the first surety_fopen of a file on
 * that disk, ends with the last surety_fclose, and gets no signals. It is not there after fork(): in a child the streams of the
 * parent fail with EBADF, and a child that goes on without execve() opens its own. No other thread may be in a function of
 * this library during a fork() of a child that does so. Files are closed on execve(). What was written and neither flushed nor
 * closed is lost at exit(), and a file that was made is as long as the room it was given then: its end reads as zeros.
 */

#ifndef SURETY_STREAM_H
#define SURETY_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h> /* SEEK_SET, SEEK_CUR, SEEK_END */

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; surety_version() is that of the library. */
#define SURETY_STREAM_VERSION "0.1.0"

/* An open stream. */
typedef struct surety_stream surety_stream;

/* What a stream is promised. Initialise it with SURETY_CONTRACT(rate); whatever is 0 has its default. */
struct surety_contract {
    uint64_t size;      /* sizeof(struct surety_contract) */
    uint64_t rate;      /* bytes per second; no default */
    uint64_t access;    /* bytes that the program takes at once; 64 KiB */
    uint64_t jitter_ns; /* how much the program, or the disk, may be late; 430 ms. 1 ns is as good as none */
    uint64_t batch;     /* bytes fetched at once, rounded up to pages; 80 KiB */
    uint64_t buffer;    /* bytes of the play-out buffer; access + batch + what the rate gives in the jitter, at least access + batch */
    uint64_t bound_ns;  /* the longest time from asking for a batch until it is there, where that was admitted (surety plan); none */
    uint64_t length;    /* bytes that will be written, to have room for them from the beginning; not known. Of "w" alone */
    uint64_t flush_ns;  /* what is written is brought to the medium each time so much of the stream was; when the program asks */
    uint64_t flags;     /* SURETY_REPEATS | SURETY_PAUSED */
};

#define SURETY_CONTRACT(rate) { sizeof(struct surety_contract), (uint64_t)(rate), 0, 0, 0, 0, 0, 0, 0, 0 }

#define SURETY_REPEATS 1u /* the file begins again at its end */
#define SURETY_PAUSED 2u  /* nothing is fetched before surety_resume; of streams that are read */

/*
 * Opens a file as a stream from its beginning. The modes, each also with "b":
 *
 *   "r"   reads; fetching begins at once
 *   "w"   writes a new file, or one that is emptied; room for LENGTH bytes of the contract is allocated now, else in steps
 *   "r+"  writes over a file that is there, which keeps its length and what is not written over; past its end it grows
 *
 * SURETY_REPEATS with "r+" writes round and round, within a length that is a multiple of a page.
 *
 * Fails for what the file cannot be opened for (errno of open), for what is no file, or has nothing to read (EISDIR, EINVAL), for a
 * contract that cannot be (EINVAL; E2BIG: it has what this version does not know), and where memory, threads or descriptors are
 * used up.
 */
surety_stream *surety_fopen(const char *path, const char *mode, const struct surety_contract *contract);

/*
 * Reads COUNT items of SIZE bytes each, waits until they are there, and returns how many items there are: fewer at the end of the file
 * and after a failure, which surety_feof and surety_ferror tell apart. A program that is faster than its contract waits for
 * its rate. What was read of an item that is not complete is in memory, and the position is behind it.
 *
 * At the end of the file a later call looks again: it may have grown. Fails with EIO where the file was made shorter, with EAGAIN
 * where the stream is paused and nothing of it is there, else with the error of the disk; the bytes before that are right.
 */
size_t surety_fread(void *into, size_t size, size_t count, surety_stream *stream);

/*
 * Writes COUNT items of SIZE bytes each and returns how many were taken: fewer after a failure. They are in the stream's buffer then, and
 * go to the disk in batches; a program that is faster than its contract waits. What the disk refuses fails a later call, or
 * surety_fflush or surety_fclose.
 */
size_t surety_fwrite(const void *from, size_t size, size_t count, surety_stream *stream);

/* Waits until all that was written is on the medium, not in the page cache or the disk's: 0, or -1. */
int surety_fflush(surety_stream *stream);

/* Whether the last surety_fread ended at the end of the file: 1 or 0. -1: no stream. */
int surety_feof(surety_stream *stream);

/* Whether the last surety_fread, surety_fwrite or surety_fflush failed: 1 or 0. -1: no stream. */
int surety_ferror(surety_stream *stream);

/*
 * Closes a stream and frees what it has: 0, or -1. What was written is on the medium then, and the file has its length; -1 says
 * that it is not, and the stream is closed all the same. A call of another thread with the same stream comes to its end before.
 */
int surety_fclose(surety_stream *stream);

/*
 * Moves the play-out point forward, and returns where it is then: bytes of the stream before the next one that is read, or -1.
 * Bytes between are gone over without waiting for them, what was fetched ahead of them is kept, and those that were not asked
 * for yet are not fetched. surety_fread moves it by what it reads: surety_position(stream, 0, SEEK_CUR) tells where it is, also
 * in a stream that is written. In a stream that repeats it counts the bytes of all rounds.
 *
 * Fails backward (EINVAL): surety_seek goes back. A stream that is written goes on only by what is written (EBADF).
 */
int64_t surety_position(surety_stream *stream, int64_t offset, int whence);

/*
 * Goes on at a byte of the file: 0, or -1. What was fetched ahead is thrown away, and the next read waits for the disk. A place behind the end
 * is none to fail for: there is nothing to read there until the file has grown.
 */
int surety_seek(surety_stream *stream, int64_t offset, int whence);

/* Fetches no more until surety_resume: 0, or -1. What is there can still be read. For streams that are read. */
int surety_pause(surety_stream *stream);

/* Fetches again: 0, or -1. */
int surety_resume(surety_stream *stream);

/* Bytes per second from now on: 0, or -1. The buffer stays as large as it is. */
int surety_change_rate(surety_stream *stream, uint64_t rate);

/*
 * When the streams of its disk are served from now on, all those of this process: 0, or -1. A disk whose first stream is opened has SURETY_MODE_STEADY; what
 * is set stays until its last stream is closed. With the longest batches nothing has a bound, so no level is above SURETY_SCHEDULED.
 *
 * Fails for a mode that there is not (EINVAL).
 */
int surety_set_mode(surety_stream *stream, int mode);

#define SURETY_MODE_STEADY 0  /* a batch as soon as there is room and credit for it */
#define SURETY_MODE_LONGEST 1 /* the buffers of all are filled, or emptied, when one has no more than its jitter ahead; the disk rests in between */

/* What happened to a stream since it was opened. Initialise it with SURETY_STATS. */
struct surety_stats {
    uint64_t size;               /* sizeof(struct surety_stats) */
    uint64_t batches;            /* batches that were fetched, or written, */
    uint64_t bytes;              /* and bytes of the file in them */
    uint64_t worst_batch_ns;     /* the longest time from wanting a batch, and having the one before it, until it was complete */
    uint64_t worst_in_device_ns; /* the longest time of a batch in the kernel and the device, behind the one before it too */
    uint64_t beyond_bound;       /* batches that took longer than bound_ns of the contract */
    uint64_t least_ahead;        /* bytes ready to be read, or room to write to, when a batch was complete, the fewest; SURETY_NONE: none was yet */
    uint64_t under_runs;         /* reads or writes that a program no faster than its contract had to wait in, */
    uint64_t waited_queue_ns;    /* and how long they waited for batches of other streams, */
    uint64_t waited_device_ns;   /* for the I/O scheduler or the device, or for metadata that a write changes, which are not told apart, */
    uint64_t waited_cpu_ns;      /* and for a CPU for the program; more below */
    uint64_t buffer;             /* bytes of memory that the stream has */
    uint64_t syncs;              /* times that what was written was brought to the medium, */
    uint64_t worst_sync_ns;      /* and the longest of them */
    uint64_t waited_serving_cpu_ns; /* under-runs waited for a CPU for the thread that serves the disk, */
    uint64_t waited_page_cache_ns;  /* for the page cache (and the disk below it, where there is no direct access), */
    uint64_t waited_metadata_ns;    /* and for metadata, where that is a call of its own: room for a file that grows, the place of what it grew by */
    uint64_t rests;                 /* times so far in which no batch of the streams of its disk was at it, of this process, */
    uint64_t rested_ns;             /* all together, */
    uint64_t longest_rest_ns;       /* and the longest */
};

#define SURETY_STATS { sizeof(struct surety_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

#define SURETY_NONE UINT64_MAX

/* Fills STATS: 0, or -1. What this version does not know is 0. */
int surety_stats(surety_stream *stream, struct surety_stats *stats);

/* How much of a guarantee a stream has now, as a number that grows with it, or -1. */
int surety_level(surety_stream *stream);

#define SURETY_OBSERVED 0  /* fetched ahead and counted; the disk treats it as anybody's */
#define SURETY_SCHEDULED 1 /* past the page cache, from locked memory, its requests first; nothing bounds how long they take */
#define SURETY_ADMITTED 2  /* the same, and no batch took longer than bound_ns of the contract */
#define SURETY_VERIFIED 3  /* admitted, and runs were within the bound; no stream says so of itself */

/* The word for a level, which stays valid; NULL: there is no such level. */
const char *surety_level_name(int level);

/*
 * Writes reason INDEX, from 0, why the stream has no higher level, and returns its length without the NUL; 0 where there is none, or -1. It is cut
 * where SIZE bytes have no room for it, and not written at all for a SIZE of 0.
 *
 *     for (index = 0; surety_caveat(stream, index, line, sizeof line) > 0; index++)
 *         puts(line);
 */
int surety_caveat(surety_stream *stream, size_t index, char *into, size_t size);

/* Why the last call of this thread that failed did, in a sentence; "" before. Valid until another one fails. */
const char *surety_strerror(void);

/* The version of the library, as SURETY_STREAM_VERSION. */
const char *surety_version(void);

#ifdef __cplusplus
}
#endif

#endif
