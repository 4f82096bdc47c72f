/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/board.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "perf/picture.h"
#include "perf/watch.h"

int perf_board_open(struct perf_board *board, int ranks)
{
    *board = (struct perf_board){.ranks = ranks, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    board->pairs = malloc((size_t)ranks * sizeof *board->pairs);
    board->texts = calloc((size_t)ranks, sizeof *board->texts);
    board->asked = calloc((size_t)ranks, 1);
    board->joined = calloc((size_t)ranks, 1);
    for (int r = 0; board->pairs && r < ranks; r++)
        board->pairs[r][0] = board->pairs[r][1] = -1;
    if (board->epoll < 0 || !board->pairs || !board->texts || !board->asked || !board->joined)
        return -1;
    for (int r = 0; r < ranks; r++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)r};
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, board->pairs[r]) != 0 ||
            epoll_ctl(board->epoll, EPOLL_CTL_ADD, board->pairs[r][0], &event) != 0)
            return -1;
    }
    return 0;
}

static void close_end(struct perf_board *board, int rank, int end)
{
    if (board->pairs[rank][end] >= 0)
        close(board->pairs[rank][end]);
    board->pairs[rank][end] = -1;
}

void perf_board_close(struct perf_board *board)
{
    for (int r = 0; r < board->ranks; r++) {
        for (int end = 0; board->pairs && end < 2; end++)
            close_end(board, r, end);
        if (board->texts)
            free(board->texts[r]);
    }
    if (board->ranks && board->epoll >= 0)
        close(board->epoll);
    free(board->pairs);
    free(board->texts);
    free(board->asked);
    free(board->joined);
    *board = (struct perf_board){.epoll = -1};
}

void perf_board_hand_down(const struct perf_board *board, int rank)
{
    char text[16];
    fcntl(board->pairs[rank][1], F_SETFD, 0);
    snprintf(text, sizeof text, "%d", board->pairs[rank][1]);
    setenv(PERF_WATCH_VARIABLE, text, 1);
}

void perf_board_started(struct perf_board *board)
{
    for (int r = 0; r < board->ranks; r++)
        close_end(board, r, 1);
}

static void answered(struct perf_board *board, int rank)
{
    board->waiting -= board->asked[rank];
    board->asked[rank] = 0;
}

/* One message of a rank. Returns its first character, 0 when there is none. */
static int take(struct perf_board *board, int rank)
{
    char message[1 + PERF_PICTURE_TEXT];
    ssize_t got = recv(board->pairs[rank][0], message, sizeof message - 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got <= 0) {
        close_end(board, rank, 0); /* which takes it out of epoll */
        answered(board, rank);
        return 0;
    }
    message[got] = '\0';
    if (message[0] == PERF_JOINED) {
        board->joined[rank] = 1;
        return PERF_JOINED;
    }
    free(board->texts[rank]);
    board->texts[rank] = strdup(message + 1);
    answered(board, rank);
    return message[0];
}

int perf_board_read(struct perf_board *board)
{
    struct epoll_event events[64];
    int alarm = 0, count;
    while ((count = epoll_wait(board->epoll, events, 64, 0)) > 0) {
        for (int i = 0; i < count; i++) {
            int letter = take(board, (int)events[i].data.u32);
            alarm |= letter == PERF_HANGS || letter == PERF_FAILED;
        }
    }
    return alarm;
}

static void send_letter(const struct perf_board *board, int rank, char letter)
{
    if (board->pairs[rank][0] >= 0)
        send(board->pairs[rank][0], &letter, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void perf_board_ask(struct perf_board *board)
{
    for (int r = 0; r < board->ranks; r++) {
        if (board->texts[r] || board->pairs[r][0] < 0)
            continue;
        board->waiting += !board->asked[r];
        board->asked[r] = 1;
        send_letter(board, r, PERF_ASK);
    }
}

void perf_board_gone(struct perf_board *board, const char *text)
{
    char message[1 + PERF_GONE_TEXT];
    int size = snprintf(message, sizeof message, "%c%s", PERF_GONE, text);
    for (int r = 0; r < board->ranks; r++)
        if (!board->joined[r] && board->pairs[r][0] >= 0)
            send(board->pairs[r][0], message, size < (int)sizeof message ? (size_t)size : sizeof message - 1,
                 MSG_NOSIGNAL | MSG_DONTWAIT);
}

void perf_board_end(struct perf_board *board)
{
    for (int r = 0; r < board->ranks; r++)
        send_letter(board, r, PERF_END);
}

void perf_board_print(const struct perf_board *board)
{
    int said = 0;
    for (int r = 0; r < board->ranks; r++)
        said += board->texts[r] != NULL;
    if (said)
        perf_picture_print((const char *const *)board->texts, board->ranks, stderr);
}
