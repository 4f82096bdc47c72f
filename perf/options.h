/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line asks for. Pure parsing: reads argv, touches neither files nor the environment. */
#ifndef WEFT_PERF_OPTIONS_H
#define WEFT_PERF_OPTIONS_H

#include <stddef.h>
#include <stdio.h>

#define PERF_RANKS_MAX      4096
#define PERF_ITERATIONS_MAX 1000000
#define PERF_AGGREGATE_MAX  1000
#define PERF_WINDOW_MAX     4096
#define PERF_INPUTS_MAX     8
#define PERF_PLACES_MAX     64

/* Where a rank's buffers live: "malloc", "weft" (weft_mem_alloc), or a kind of devices and which of them. */
struct perf_place {
    char kind[32];
    int ordinal; /* PERF_ORDINAL_OF_RANK: none was named */
};

enum { PERF_ORDINAL_OF_RANK = -1 };
enum { PERF_OUT_OF_PLACE = 1, PERF_IN_PLACE = 2 };

/* Exit statuses of weft-perf, as its man page lists them. */
enum { PERF_EXIT_OK = 0, PERF_EXIT_WRONG = 1, PERF_EXIT_USAGE = 2, PERF_EXIT_FAILED = 3 };

/* Which flags a command takes, beside those that all take. */
enum {
    PERF_TAKES_ALGORITHM = 1,
    PERF_TAKES_SIZES = 1 << 1,
    PERF_TAKES_TYPE = 1 << 2,
    PERF_TAKES_OP = 1 << 3,
    PERF_TAKES_ROOT = 1 << 4,
    PERF_TAKES_COUNTS = 1 << 5,
    PERF_TAKES_WARMUPS = 1 << 6,
    PERF_TAKES_CHECK = 1 << 7,
    PERF_TAKES_MEMORY = 1 << 8, /* --memory is malloc or weft, */
    PERF_TAKES_PLACEMENT = 1 << 9,
    PERF_TAKES_WINDOW = 1 << 10,
    PERF_TAKES_PAIRS = 1 << 11,
    PERF_TAKES_SIZE = 1 << 12,
    PERF_TAKES_DELAY = 1 << 13,
    PERF_TAKES_CSV = 1 << 14,
    PERF_TAKES_BOTH_WAYS = 1 << 15,
    PERF_TAKES_DEVICE = 1 << 16, /* or a kind of devices */
    PERF_TAKES_INPUTS = 1 << 17,
    PERF_TAKES_CLOCK = 1 << 18,
    PERF_TAKES_COLUMNS = 1 << 19, /* prints perf_report_rows() */
    PERF_TAKES_NCCL = 1 << 20,    /* nccl-tests' flags that mean nothing here, or have an answer */
    PERF_TAKES_ALL = (1 << 21) - 1
};

/* What a command accepts and starts from. */
struct perf_accepts {
    unsigned flags;   /* PERF_TAKES_... */
    unsigned ignores; /* likewise: flags that are read, and then change nothing */
    int iterations;   /* 0: 20 */
    size_t size_bytes;
    int least_ranks;
    int ranks;       /* that are launched where nothing says how many; 0: none */
    unsigned dtypes; /* bit i: weft_dtype i; 0: float32 */
};

struct perf_options {
    int ranks;             /* local ranks to launch; 0: take part in a job by the environment */
    const char *transport; /* value for WEFT_TRANSPORT, NULL: leave the environment's */
    const char *provider;  /* value for WEFT_OFI_PROVIDER, NULL: likewise */
    const char *device;    /* value for WEFT_VERBS_DEVICE, NULL: likewise */
    const char *algorithm; /* value for WEFT_ALGO, NULL: likewise */
    size_t begin_bytes;    /* -b */
    size_t end_bytes;      /* -e */
    size_t step_bytes;     /* -i; 0: multiply by factor instead */
    size_t factor;         /* -f */
    unsigned dtypes;       /* bit i: weft_dtype i */
    unsigned ops;          /* bit i: weft_op i */
    int skip_unsupported;  /* "all" types or operations: pass over what the library cannot reduce */
    int iterations;        /* -n */
    int warmups;           /* -w */
    int checks;            /* -c */
    int root;              /* -r; -1: every root in turn */
    const char *memory;    /* where the buffers live, as given */
    struct perf_place places[PERF_PLACES_MAX]; /* the same: of each rank in turn */
    int place_count;
    int device_clock;      /* stream-ordered calls, timed by the device */
    int own_columns;       /* weft's columns behind nccl-tests' */
    int aggregate;         /* -m: least calls of a sample */
    int cycles;            /* -N: runs of the sweep */
    int timeout_s;         /* -T; 0: leave WEFT_TIMEOUT_MS */
    int ignored;           /* of flags that mean nothing here */
    int placements;        /* PERF_OUT_OF_PLACE | PERF_IN_PLACE */
    int pin;               /* 1, 0, or -1: pin when there are enough processors */
    int window;            /* sends in flight */
    int bidirectional;     /* both ranks of a pair send */
    int pairs;             /* every pair in turn */
    int inputs;            /* of a reduction */
    size_t size_bytes;     /* of the messages of commands that know only one size */
    int delay_ms;          /* overlap: between late receives */
    const char *json_path; /* NULL: none */
    const char *csv_path;  /* NULL: none */
    int hang_s;            /* a call that takes longer is a hang; 0: none is */
    int stay_rank;         /* tests: this rank does not make its stay_call-th call; -1 none */
    long long stay_call;   /* from 1; 0: it dies before it joins */
    unsigned accepts;      /* PERF_TAKES_... of the command */
    int help;              /* --help was given: nothing else was checked */
    int argc;              /* the command line, for the record */
    char **argv;
};

/* Parses argv (argv[0] the program, argv[1] the command). 0, or -1 after a message on stderr that names the
 * flag, its value and what was expected; a flag that the command has no use for is an error too. The strings in
 * *options point into argv or are static. */
int perf_options_parse(struct perf_options *options, const struct perf_accepts *accepts, int argc,
                       char **argv);

/* One line per flag that the command takes. */
void perf_options_help(const struct perf_accepts *accepts, FILE *out);

/* Where a rank's buffers live. */
const struct perf_place *perf_options_place(const struct perf_options *options, int rank);

/* The size after size_bytes in the sweep, 0 at the end of it. */
size_t perf_options_next_size(const struct perf_options *options, size_t size_bytes);

/* How many sizes the sweep has. */
size_t perf_options_sizes(const struct perf_options *options);

#endif
