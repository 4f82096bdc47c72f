/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's side of the watchers (watch.h): collects what ranks say and prints the merged picture. */
#ifndef WEFT_PERF_BOARD_H
#define WEFT_PERF_BOARD_H

struct perf_board {
    int ranks;
    int epoll;       /* readable when some rank has said something */
    int (*pairs)[2]; /* [r][0] the launcher's end, [r][1] rank r's; -1 closed */
    char **texts;    /* [r] what rank r has said last; NULL nothing */
    int waiting;     /* ranks that were asked and have neither answered nor gone */
    unsigned char *asked, *joined;
};

/* 0, or -1 with errno. Ends with perf_board_close(), also after a failure. */
int perf_board_open(struct perf_board *board, int ranks);
void perf_board_close(struct perf_board *board);

/* In the child that becomes rank: keeps its end across exec and names it. */
void perf_board_hand_down(const struct perf_board *board, int rank);
/* When all ranks have been started. */
void perf_board_started(struct perf_board *board);

/* Takes in what has come. Returns 1 when a rank says that it hangs or has failed. */
int perf_board_read(struct perf_board *board);
/* Asks those ranks that have not said anything yet. */
void perf_board_ask(struct perf_board *board);
/* Says to those ranks that have not joined the job that it cannot begin any more, and why. */
void perf_board_gone(struct perf_board *board, const char *text);
/* Has ranks that stay away come back. */
void perf_board_end(struct perf_board *board);
/* Prints the picture on stderr, when anybody has said anything. */
void perf_board_print(const struct perf_board *board);

#endif
