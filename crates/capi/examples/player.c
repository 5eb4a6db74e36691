/*
 * Plays a file at a rate, as far as a program without a screen can: takes a block each time one is due and says when it was late.
 *
 *     cc player.c $(pkg-config --cflags --libs surety-stream) -o player
 *     ./player movie.mpg 1000000
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <surety-stream.h>
#include <time.h>

#define BLOCK 65536

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void sleep_until(int64_t ns)
{
    struct timespec until;
    until.tv_sec = (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
        continue;
}

/* What the stream is worth, and why not more. */
static void print_level(surety_stream *stream)
{
    char line[256];
    size_t index;
    printf("%s\n", surety_level_name(surety_level(stream)));
    for (index = 0; surety_caveat(stream, index, line, sizeof line) > 0; index++)
        printf("  %s\n", line);
}

int main(int count, char **arguments)
{
    static unsigned char block[BLOCK];
    struct surety_contract contract = SURETY_CONTRACT(count == 3 ? strtoull(arguments[2], NULL, 10) : 0);
    struct surety_stats stats = SURETY_STATS;
    surety_stream *movie;
    int64_t begin, due, position;
    unsigned long blocks = 0, late = 0;

    if (count != 3) {
        fprintf(stderr, "usage: %s FILE BYTES_PER_SECOND\n", arguments[0]);
        return 2;
    }
    contract.access = BLOCK;
    movie = surety_fopen(arguments[1], "r", &contract);
    if (movie == NULL) {
        fprintf(stderr, "%s\n", surety_strerror());
        return 1;
    }
    print_level(movie);

    /* A block is due when its predecessor has been played; the first one a block's time from now. */
    begin = now_ns();
    while (surety_fread(block, 1, BLOCK, movie) > 0) {
        position = surety_position(movie, 0, SEEK_CUR);
        due = begin + (int64_t)((double)position / (double)contract.rate * 1e9);
        blocks++;
        if (now_ns() > due)
            late++;
        else
            sleep_until(due);
    }
    if (surety_ferror(movie)) {
        fprintf(stderr, "%s: %s\n", arguments[1], surety_strerror());
        return 1;
    }
    if (surety_stats(movie, &stats) == 0)
        printf("%lu blocks, %lu late; the longest batch %.3f ms, %lu under-runs, %lu KiB of memory\n", blocks, late,
            (double)stats.worst_batch_ns / 1e6, (unsigned long)stats.under_runs, (unsigned long)(stats.buffer >> 10));
    return surety_fclose(movie) == 0 ? 0 : 1;
}
