/* SPDX-License-Identifier: Apache-2.0 */
/* weft-plan: look at plans, prove them, price them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "algos/choose.h"
#include "algos/cost.h"
#include "algos/hosts.h"
#include "algos/proof/cost_plan.h"
#include "algos/proof/dump.h"
#include "algos/proof/weft-plan-options.h"
#include "algos/proof/verify.h"
#include "base/clock.h"
#include "base/tool/version.h"

static int failed_with_detail(void)
{
    fprintf(stderr, "weft-plan: %s\n", weft_error_detail());
    return PLAN_EXIT_WRONG;
}

static struct weft_plan_request request_of(const struct plan_options *options, int algorithm, uint64_t rank)
{
    enum weft_collective collective = (enum weft_collective)options->collective;
    return (struct weft_plan_request){collective,
                                      (enum weft_algorithm)algorithm,
                                      (uint32_t)options->ranks,
                                      (uint32_t)rank,
                                      options->in_place,
                                      weft_collective_has_root(collective) ? (int)options->root : -1,
                                      options->unequal,
                                      options->strict,
                                      options->hosts};
}

static int dump(const struct plan_options *options)
{
    uint64_t first = options->rank_given ? options->rank : 0;
    uint64_t last = options->rank_given ? options->rank : options->ranks - 1;
    for (uint64_t rank = first; rank <= last; rank++) {
        struct weft_plan_request request = request_of(options, options->algorithm, rank);
        struct weft_plan *plan;
        if (weft_plan_make(&request, &plan) != WEFT_OK)
            return failed_with_detail();
        if (options->json)
            weft_plan_dump_json(plan, stdout);
        else if (options->steps)
            weft_plan_dump_steps(plan, stdout, 0);
        else
            weft_plan_dump(plan, stdout);
        weft_plan_free(plan);
    }
    return 0;
}

/* A JSON string; the verifier's texts are plain ASCII. */
static void print_quoted(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
    putchar('"');
}

/* ", in place, root 3" */
static void print_form(const struct plan_options *options)
{
    if (weft_collective_has_root((enum weft_collective)options->collective))
        printf(", root %" PRIu64, options->root);
    printf("%s%s%s", options->in_place ? ", in place" : "", options->unequal ? ", unequal" : "",
           options->strict ? ", strict" : "");
}

static const char *truth(int yes)
{
    return yes ? "true" : "false";
}

static void print_verdict_json(const struct plan_options *options, int status,
                               const struct weft_verify_report *report, double seconds)
{
    printf("{\"collective\": \"%s\", \"algorithm\": \"%s\", \"ranks\": %" PRIu64 ", ",
           weft_collective_name((enum weft_collective)options->collective),
           weft_algorithm_name((enum weft_algorithm)options->algorithm), options->ranks);
    if (weft_collective_has_root((enum weft_collective)options->collective))
        printf("\"root\": %" PRIu64 ", ", options->root);
    printf("\"in_place\": %s, \"unequal\": %s, \"strict\": %s, \"window\": %u, \"proven\": %s, \"method\": "
           "\"%s\", "
           "\"steps\": %" PRIu64 ", \"messages\": %" PRIu64
           ", \"in_flight_max\": %u, \"exact_sets\": %s, \"seconds\": %.3f",
           truth(options->in_place), truth(options->unequal), truth(options->strict), report->window,
           truth(status == WEFT_OK), report->method == WEFT_VERIFY_ROTATION ? "rotation" : "full",
           report->steps, report->messages, report->in_flight_max, truth((int)report->exact), seconds);
    if (status != WEFT_OK) {
        printf(", \"rank\": %u, \"step\": %" PRIu64 ", \"error\": ", report->rank, report->step);
        print_quoted(weft_error_detail());
    }
    printf("}\n");
}

static void print_verdict(const struct plan_options *options, int status,
                          const struct weft_verify_report *report, double seconds)
{
    if (options->json) {
        print_verdict_json(options, status, report, seconds);
        return;
    }
    printf("%s %s, %" PRIu64 " ranks", weft_collective_name((enum weft_collective)options->collective),
           weft_algorithm_name((enum weft_algorithm)options->algorithm), options->ranks);
    print_form(options);
    if (status != WEFT_OK) {
        printf(": WRONG: %s\n", weft_error_detail());
        return;
    }
    printf(": correct; window %u, %" PRIu64 " steps, %" PRIu64
           " messages, at most %u in flight per rank, %s method, %s sets, %.3f s\n",
           report->window, report->steps, report->messages, report->in_flight_max,
           report->method == WEFT_VERIFY_ROTATION ? "rotation" : "full", report->exact ? "exact" : "hashed",
           seconds);
}

static int verify(const struct plan_options *options)
{
    static const char *const methods[] = {"auto", "full", "rotation"};
    int strict = options->strict && weft_collective_reduces((enum weft_collective)options->collective);
    struct weft_verify_options how = {.window = (uint32_t)options->window,
                                      .method = WEFT_VERIFY_AUTO,
                                      .interleavings = (uint32_t)options->interleavings,
                                      .expect = strict ? WEFT_VERIFY_EXPECT_STRICT : 0,
                                      .seed = options->seed};
    int known = 0;
    for (int i = 0; i < 3; i++) {
        if (strcmp(options->method, methods[i]) != 0)
            continue;
        how.method = (enum weft_verify_method)i;
        known = 1;
    }
    if (!known)
        return plan_options_refuse("--method is not auto, full or rotation:", options->method);
    int64_t start_ns = weft_clock_ns();
    struct weft_plan_request request = request_of(options, options->algorithm, 0);
    struct weft_plan **plans;
    if (weft_plans_make(&request, &plans) != WEFT_OK)
        return failed_with_detail();
    struct weft_verify_report report;
    int status = weft_plans_verify((const struct weft_plan *const *)plans, request.ranks, &how, &report);
    print_verdict(options, status, &report, (double)(weft_clock_ns() - start_ns) / 1e9);
    weft_plans_free(plans, request.ranks);
    return status == WEFT_OK ? 0 : PLAN_EXIT_WRONG;
}

/* Between hosts there are two links: messages within one go by shared memory. */
static struct weft_hosts_cost cost_on_hosts(const struct plan_options *options)
{
    return (struct weft_hosts_cost){weft_link_cost_of(1, options->oversubscribed),
                                    weft_link_cost_of(0, options->oversubscribed),
                                    options->hosts ? options->hosts->ports : 0};
}

static int on_hosts(const struct plan_options *options)
{
    return options->hosts && options->hosts->count > 1;
}

/* The plan evaluated step by step, in nanoseconds; negative where that is too large to do. */
static double evaluate(const struct plan_options *options, int algorithm, uint64_t bytes,
                       const struct weft_link_cost *link)
{
    struct weft_plan_request request = request_of(options, algorithm, 0);
    struct weft_plan **plans;
    double time_ns = -1;
    if (options->ranks > 1024 || weft_plans_make(&request, &plans) != WEFT_OK)
        return -1;
    struct weft_hosts_cost cost = cost_on_hosts(options);
    const struct weft_plan *const *made = (const struct weft_plan *const *)plans;
    int status = on_hosts(options) ? weft_plans_cost_hosts(made, options->hosts, bytes, &cost, &time_ns)
                                   : weft_plans_cost(made, request.ranks, bytes, link, &time_ns);
    if (status != WEFT_OK)
        time_ns = -1;
    weft_plans_free(plans, request.ranks);
    return time_ns;
}

static double estimate(const struct plan_options *options, int algorithm, uint64_t bytes,
                       const struct weft_link_cost *link)
{
    enum weft_collective collective = (enum weft_collective)options->collective;
    struct weft_hosts_cost cost = cost_on_hosts(options);
    if (on_hosts(options))
        return weft_cost_hosts_ns(collective, (enum weft_algorithm)algorithm, options->hosts, bytes, &cost);
    return weft_cost_estimate_ns(collective, (enum weft_algorithm)algorithm, (uint32_t)options->ranks, bytes,
                                 link);
}

static void print_cost(const struct plan_options *options, uint64_t bytes, const struct weft_link_cost *link,
                       int *rows)
{
    enum weft_collective collective = (enum weft_collective)options->collective;
    struct weft_choice choice = {.collective = collective,
                                 .unequal = options->unequal,
                                 .strict = options->strict,
                                 .ranks = (uint32_t)options->ranks,
                                 .bytes = bytes,
                                 .one_host = link->receiver_copies && !on_hosts(options),
                                 .oversubscribed = options->oversubscribed,
                                 .hosts = options->hosts};
    int chosen = weft_algorithm_choose(&choice);
    for (int i = WEFT_ALGO_AUTO + 1; i < WEFT_ALGO_COUNT; i++) {
        if (!weft_algorithm_serves(collective, (enum weft_algorithm)i) ||
            (options->algorithm > 0 && options->algorithm != i))
            continue;
        const char *name = weft_algorithm_name((enum weft_algorithm)i);
        double us = estimate(options, i, bytes, link) / 1000;
        double evaluated_ns = evaluate(options, i, bytes, link);
        if (options->json) {
            printf("%s\n  {\"size_bytes\": %" PRIu64 ", \"algorithm\": \"%s\", \"estimate_us\": %.3f, ",
                   (*rows)++ ? "," : "", bytes, name, us);
            if (evaluated_ns >= 0)
                printf("\"plan_us\": %.3f, ", evaluated_ns / 1000);
            printf("\"chosen\": %s}", i == chosen ? "true" : "false");
        } else {
            printf("%12" PRIu64 "  %-13s %14.3f", bytes, name, us);
            if (evaluated_ns >= 0)
                printf(" %14.3f", evaluated_ns / 1000);
            else
                printf(" %14s", "-");
            printf("%s\n", i == chosen ? "  chosen" : "");
        }
    }
}

static int cost(const struct plan_options *options)
{
    int one_host = strcmp(options->link, "shm") == 0, rows = 0;
    if (!one_host && strcmp(options->link, "network") != 0)
        return plan_options_refuse("--link is not shm or network:", options->link);
    const char *name = weft_collective_name((enum weft_collective)options->collective);
    struct weft_link_cost link = weft_link_cost_of(one_host, options->oversubscribed);
    if (options->json)
        printf("{\"collective\": \"%s\", \"ranks\": %" PRIu64 ", \"link\": \"%s\", \"rows\": [", name,
               options->ranks, link.name);
    else
        printf("%s, %" PRIu64 " ranks, %s: latency %.0f ns, %.3g ns per byte, %.3g ns per byte reduced\n"
               "%12s  %-13s %14s %14s\n",
               name, options->ranks, link.name, link.latency_ns, link.byte_ns, link.reduce_byte_ns, "bytes",
               "algo", "estimate us", "plan us");
    uint64_t first = options->bytes ? options->bytes : 8;
    uint64_t last = options->bytes ? options->bytes : 128 << 20;
    for (uint64_t bytes = first; bytes <= last; bytes *= 4)
        print_cost(options, bytes, &link, &rows);
    if (options->json)
        printf("\n]}\n");
    return 0;
}

static int run(int argc, char **argv)
{
    struct plan_options options;
    if (weft_tool_answers("weft-plan", argc, argv, plan_options_help))
        return 0;
    int failed = plan_options_read(argc, argv, &options);
    if (!failed)
        failed = options.command[0] == 'd'   ? dump(&options)
                 : options.command[0] == 'v' ? verify(&options)
                                             : cost(&options);
    weft_hosts_free(options.hosts);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = run(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "weft-plan: cannot write the output\n");
        return PLAN_EXIT_WRONG;
    }
    return failed;
}
