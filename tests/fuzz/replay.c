/* SPDX-License-Identifier: Apache-2.0 */
/* Plays a fuzz target's inputs without libFuzzer: replay_TARGET FOLDER, or replay_TARGET FILE for one alone. Linked with the target; make
 * check has only gcc, and a target that is no longer what the library expects is to show there.
 *
 * First all files as they are, then variants: one to four bytes of a file changed, and some cut short, drawn by WEFT_SEED. A child plays them;
 * what it plays lies in memory that both see. Where it ends badly, that input is named and written to PROGRAM.input.
 */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/effort.h"
#include "tests/support/patience.h"

#define FILES_MAX   512
#define INPUT_BYTES (1u << 20)
#define LIMIT_S     60 /* for all inputs of a target */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

struct file {
    char name[512];
    uint8_t *data;
    size_t size;
};

/* What is played now. */
struct play {
    size_t file, variant; /* variant 0: the file itself */
    size_t played;
    size_t size;
    uint8_t data[INPUT_BYTES];
};

static struct file files[FILES_MAX];
static size_t file_count;
static struct play *play;
static uint64_t seed, state;

static uint64_t draw(uint64_t limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % limit;
}

static void file_read(const char *name)
{
    struct file *file = &files[file_count];
    FILE *in = file_count < FILES_MAX ? fopen(name, "rb") : NULL;
    if (!in || snprintf(file->name, sizeof file->name, "%s", name) >= (int)sizeof file->name) {
        fprintf(stderr, "%s: cannot be read, or is one file too many\n", name);
        exit(2);
    }
    file->data = malloc(INPUT_BYTES);
    file->size = file->data ? fread(file->data, 1, INPUT_BYTES, in) : INPUT_BYTES;
    fclose(in);
    if (file->size == INPUT_BYTES) {
        fprintf(stderr, "%s: longer than an input can be\n", name);
        exit(2);
    }
    file_count++;
}

/* Whether it was a folder. */
static int files_read(const char *path)
{
    struct dirent **entries;
    struct stat what;
    char name[1024];
    if (stat(path, &what) == 0 && !S_ISDIR(what.st_mode)) {
        file_read(path);
        return 0;
    }
    int count = scandir(path, &entries, NULL, alphasort); /* the same order everywhere */
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            file_read(name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return 1;
}

static void variant_make(const struct file *file, size_t variant)
{
    play->size = file->size;
    memcpy(play->data, file->data, file->size);
    if (!variant || !file->size)
        return;
    for (uint64_t left = 1 + draw(4); left; left--)
        play->data[draw(play->size)] ^= (uint8_t)(1 + draw(255));
    if (draw(8) == 0)
        play->size = draw(play->size);
}

/* A copy of just that size, so that a sanitizer sees what is read beyond it. */
static void input_play(size_t file, size_t variant)
{
    play->file = file;
    play->variant = variant;
    variant_make(&files[file], variant);
    uint8_t *copy = malloc(play->size ? play->size : 1);
    if (!copy)
        abort();
    memcpy(copy, play->data, play->size);
    LLVMFuzzerTestOneInput(copy, play->size);
    free(copy);
    play->played++;
}

static void all_play(int argc, char **argv, size_t variants)
{
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argc, &argv);
    for (size_t i = 0; i < file_count; i++)
        input_play(i, 0);
    for (size_t i = 1; i <= variants; i++)
        input_play(i % file_count, i);
    exit(0); /* a sanitizer looks for leaks there */
}

/* How the child ended, in words; NULL where it has played everything. */
static const char *end_of(pid_t child, size_t inputs, char *text, size_t size)
{
    struct timespec limit = {(time_t)(LIMIT_S * test_patience()), 0};
    sigset_t ended;
    int status;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    if (sigtimedwait(&ended, NULL, &limit) != SIGCHLD) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        return "HANG";
    }
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && play->played == inputs)
        return NULL;
    if (WIFSIGNALED(status))
        snprintf(text, size, "ended by signal %d ", WTERMSIG(status));
    else
        snprintf(text, size, "ended with status %d, %zu of %zu inputs played", WEXITSTATUS(status),
                 play->played, inputs);
    return text;
}

static void input_keep(const char *path)
{
    char name[1024];
    snprintf(name, sizeof name, "%s.input", path);
    FILE *out = fopen(name, "wb");
    if (!out)
        return;
    fwrite(play->data, 1, play->size, out);
    fclose(out);
    printf("the input is %s\n", name);
}

int main(int argc, char **argv)
{
    const char *given = getenv("WEFT_SEED");
    char text[128];
    sigset_t ended;
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER or FILE\n", argv[0]);
        return 2;
    }
    seed = given                 ? strtoull(given, NULL, 0)
           : getenv("WEFT_LONG") ? (uint64_t)time(NULL) ^ (uint64_t)getpid() << 32
                                 : 1;
    state = seed;
    size_t variants = files_read(argv[1]) ? test_by_effort(30, 300, 10000) : 0;
    play = mmap(NULL, sizeof *play, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!file_count || play == MAP_FAILED) {
        fprintf(stderr, "%s: no inputs there, or no memory\n", argv[1]);
        return 2;
    }
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &ended, NULL);
    pid_t child = fork();
    if (child == 0) {
        sigprocmask(SIG_UNBLOCK, &ended, NULL);
        all_play(argc, argv, variants);
    }
    const char *end = child < 0 ? "no child" : end_of(child, file_count + variants, text, sizeof text);
    printf("%zu files, %zu variants, WEFT_SEED=%llu\n", file_count, variants, (unsigned long long)seed);
    if (!end)
        return 0;
    printf("FAIL %s, variant %zu: %s\n", files[play->file].name, play->variant, end);
    input_keep(argv[0]);
    return 1;
}
