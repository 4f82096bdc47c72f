/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/attack.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net/accept.h"
#include "base/net/dial.h"
#include "comm/boot/frame.h"
#include "tests/support/ranks.h"

#define PAIRS_MAX 32

int attack_may_have(int descriptors)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)descriptors + 64;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < wanted)
        return 0;
    if (limit.rlim_cur >= wanted)
        return 1;
    limit.rlim_cur = wanted;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static int dial(uint16_t port)
{
    struct sockaddr_in name = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&name, sizeof name) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static void say(int fd, const void *bytes, size_t size)
{
    ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* the other end may have closed already */
}

static void say_noise(int fd, size_t size)
{
    unsigned char noise[4096];
    ssize_t got = getrandom(noise, size, 0);
    if (got > 0)
        say(fd, noise, (size_t)got);
}

void attack_scan(uint16_t port, int times)
{
    for (int i = 0; i < times; i++) {
        int fd = dial(port);
        if (fd < 0)
            continue;
        if (i % 2)
            say_noise(fd, (size_t)1 << i % 13);
        close(fd);
    }
}

void attack_silent(uint16_t port, int *fds, int count)
{
    for (int i = 0; i < count; i++)
        fds[i] = dial(port);
}

void attack_half(uint16_t port, int *fds, int count)
{
    static const unsigned char prefix[8] = {'W', 'E', 'F', 'T', 1, 0, 2, 0};
    attack_silent(port, fds, count);
    for (int i = 0; i < count; i++) {
        if (fds[i] < 0)
            continue;
        if (i % 2)
            say(fds[i], prefix, sizeof prefix);
        say_noise(fds[i], WEFT_AUTH_PROOF_BYTES - 1 - sizeof prefix);
    }
}

void attack_replay(uint16_t port, const struct attack_record *record, int *fds, int count)
{
    attack_silent(port, fds, count);
    for (int i = 0; i < count; i++)
        if (fds[i] >= 0)
            say(fds[i], record->bytes, record->size);
}

/* As far as the proof, and a little of what would come behind it. */
void attack_wrong_secret(uint16_t port, int *fds, int count)
{
    struct weft_key job;
    const struct weft_net_address address = {.family = 4, .port = port, .ip = {127, 0, 0, 1}};
    const struct weft_auth_claims claims = {.purpose = WEFT_AUTH_CHECKIN, .rank = 1};
    if (weft_auth_job_key("this is another secret", 22, &job) != 0)
        return;
    for (int i = 0; i < count; i++) {
        struct weft_net_dial dial;
        int64_t until_ns = weft_deadline_ns(5000);
        int status = weft_net_dial_start(&dial, &job, &address, &claims);
        while (status == 0 && dial.state < WEFT_NET_DIAL_PROVEN && weft_clock_ns() < until_ns) {
            struct pollfd wait = {.fd = dial.fd, .events = weft_net_dial_events(&dial)};
            if (poll(&wait, 1, 100) > 0)
                status = weft_net_dial_step(&dial);
        }
        fds[i] = status == 0 ? dial.fd : -1;
        if (fds[i] >= 0)
            say_noise(fds[i], 200);
    }
}

void attack_make_record(struct attack_record *record)
{
    struct weft_key job;
    struct weft_auth_session session;
    const struct weft_auth_claims claims = {.purpose = WEFT_AUTH_CHECKIN, .rank = 1};
    unsigned char challenge[WEFT_AUTH_CHALLENGE_BYTES], *frame = record->bytes + WEFT_AUTH_PROOF_BYTES;
    enum { BODY = 100 };
    record->size = 0;
    if (weft_auth_job_key(TEST_SECRET, TEST_SECRET_BYTES, &job) != 0)
        return;
    weft_auth_challenge(challenge);
    if (weft_auth_prove(&job, challenge, &claims, record->bytes, &session) != 0)
        return;
    memset(frame, 0, WEFT_BOOT_HEADER_BYTES + BODY);
    weft_boot_frame_seal(&session.send, WEFT_BOOT_CHECKIN, 0, frame, frame + WEFT_BOOT_HEADER_BYTES, BODY,
                         frame + WEFT_BOOT_HEADER_BYTES + BODY);
    record->size = WEFT_AUTH_PROOF_BYTES + WEFT_BOOT_HEADER_BYTES + BODY + WEFT_TAG_BYTES;
}

void attack_end(int *fds, int count)
{
    for (int i = 0; i < count; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

/* The port of the listening socket with this inode, 0 when it is none. */
static uint16_t listening_port(const char *table, unsigned long inode)
{
    FILE *file = fopen(table, "re");
    char line[512];
    uint16_t found = 0;
    while (file && !found && fgets(line, sizeof line, file)) {
        unsigned port, state;
        unsigned long here;
        /* sl local:port remote:port state queues timer retransmits uid timeout inode */
        if (sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*d %*d %lu", &port, &state,
                   &here) == 3 &&
            state == 0x0a && here == inode)
            found = (uint16_t)port;
    }
    if (file)
        fclose(file);
    return found;
}

uint16_t attack_find_listener(pid_t pid, uint16_t not_this)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    uint16_t found = 0;
    for (struct dirent *each; folder && !found && (each = readdir(folder));) {
        char name[512], target[128];
        unsigned long inode;
        snprintf(name, sizeof name, "%s/%s", path, each->d_name);
        ssize_t length = readlink(name, target, sizeof target - 1);
        if (length <= 0)
            continue;
        target[length] = '\0';
        if (sscanf(target, "socket:[%lu]", &inode) != 1)
            continue;
        found = listening_port("/proc/net/tcp", inode);
        if (!found)
            found = listening_port("/proc/net/tcp6", inode);
        if (found == not_this)
            found = 0;
    }
    if (folder)
        closedir(folder);
    return found;
}

/* Moves what is there; 0 when the connection is over. */
static int pass_on(int from, int to, struct attack_record *record)
{
    unsigned char bytes[4096];
    ssize_t got = recv(from, bytes, sizeof bytes, 0);
    if (got <= 0)
        return 0;
    if (record && record->size + (size_t)got <= sizeof record->bytes) {
        memcpy(record->bytes + record->size, bytes, (size_t)got);
        __atomic_store_n(&record->size, record->size + (size_t)got, __ATOMIC_RELEASE);
    }
    return send(to, bytes, (size_t)got, MSG_NOSIGNAL) == got;
}

void attack_record_proxy(int from_fd, uint16_t port, struct attack_record *record)
{
    struct pollfd wait[2 * PAIRS_MAX + 1]; /* dialer's end, listener's end, ...; the listening socket last */
    int pairs = 0;
    for (;;) {
        wait[2 * pairs] = (struct pollfd){.fd = pairs < PAIRS_MAX ? from_fd : -1, .events = POLLIN};
        poll(wait, (nfds_t)(2 * pairs + 1), -1);
        int knock = wait[2 * pairs].revents != 0;
        for (int i = 0; i < 2 * pairs; i++) {
            if (wait[i].revents && wait[i].fd >= 0 &&
                !pass_on(wait[i].fd, wait[i ^ 1].fd, i == 0 ? record : NULL)) {
                close(wait[i].fd);
                close(wait[i ^ 1].fd);
                wait[i].fd = wait[i ^ 1].fd = -1;
            }
        }
        if (knock) {
            int in = accept(from_fd, NULL, NULL), out = in < 0 ? -1 : dial(port);
            if (out >= 0) {
                wait[2 * pairs] = (struct pollfd){.fd = in, .events = POLLIN};
                wait[2 * pairs + 1] = (struct pollfd){.fd = out, .events = POLLIN};
                pairs++;
            } else if (in >= 0) {
                close(in);
            }
        }
    }
}
