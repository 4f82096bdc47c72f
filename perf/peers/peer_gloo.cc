// SPDX-License-Identifier: Apache-2.0
// Gloo's collectives over TCP on loopback, as PyTorch calls them. Variants of allreduce: 0 ring, 1 bcube (halving
// and doubling).
#include "perf/peers/loop.h"

#include <chrono>
#include <memory>
#include <string>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

struct Job {
    std::shared_ptr<gloo::rendezvous::Context> context;
    uint32_t tag = 0;
};

// Tags the options, runs the collective, and makes a status of what it throws.
template <typename Options> static int run(Job *job, const char *name, Options &options, void (*collective)(Options &))
{
    options.setTag(job->tag++);
    try {
        collective(options);
    } catch (const std::exception &error) {
        fprintf(stderr, "gloo::%s: %s\n", name, error.what());
        return 1;
    }
    return 0;
}

static int allreduce(void *self, const peers_call *call)
{
    auto *job = static_cast<Job *>(self);
    gloo::AllreduceOptions options(job->context);
    options.setInput(const_cast<float *>(call->send), call->count);
    options.setOutput(call->recv, call->count);
    options.setReduceFunction(
        static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
    options.setAlgorithm(call->variant == 0 ? gloo::AllreduceOptions::Algorithm::RING
                                            : gloo::AllreduceOptions::Algorithm::BCUBE);
    return run<gloo::AllreduceOptions>(job, "allreduce", options,
                                       [](gloo::AllreduceOptions &o) { gloo::allreduce(o); });
}

static int alltoall(void *self, const peers_call *call)
{
    auto *job = static_cast<Job *>(self);
    size_t total = call->count * static_cast<size_t>(job->context->size);
    gloo::AlltoallOptions options(job->context);
    options.setInput(const_cast<float *>(call->send), total);
    options.setOutput(call->recv, total);
    return run<gloo::AlltoallOptions>(job, "alltoall", options,
                                      [](gloo::AlltoallOptions &o) { gloo::alltoall(o); });
}

static int allgather(void *self, const peers_call *call)
{
    auto *job = static_cast<Job *>(self);
    gloo::AllgatherOptions options(job->context);
    options.setInput(const_cast<float *>(call->send), call->count);
    options.setOutput(call->recv, call->count * static_cast<size_t>(job->context->size));
    return run<gloo::AllgatherOptions>(job, "allgather", options,
                                       [](gloo::AllgatherOptions &o) { gloo::allgather(o); });
}

static int broadcast(void *self, const peers_call *call)
{
    auto *job = static_cast<Job *>(self);
    gloo::BroadcastOptions options(job->context);
    options.setRoot(call->root);
    // In place at the root, as PyTorch does it.
    options.setOutput(job->context->rank == call->root ? const_cast<float *>(call->send) : call->recv, call->count);
    return run<gloo::BroadcastOptions>(job, "broadcast", options,
                                       [](gloo::BroadcastOptions &o) { gloo::broadcast(o); });
}

int main()
{
    peers_library library = {};
    library.start_ns = peers_now_ns();
    int rank = peers_pin(), ranks = atoi(peers_environment("PEERS_RANKS", "2"));
    Job job;
    try {
        gloo::transport::tcp::attr attributes("127.0.0.1");
        auto device = gloo::transport::tcp::CreateDevice(attributes);
        gloo::rendezvous::FileStore store(peers_environment("PEERS_STORE", "."));
        job.context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
        job.context->setTimeout(std::chrono::seconds(60));
        job.context->connectFullMesh(store, device);
    } catch (const std::exception &error) {
        fprintf(stderr, "rank %d: Gloo does not start: %s\n", rank, error.what());
        return 1;
    }
    std::string version = "Gloo " + std::to_string(GLOO_VERSION_MAJOR) + "." +
                          std::to_string(GLOO_VERSION_MINOR) + "." + std::to_string(GLOO_VERSION_PATCH);
    library.version = version.c_str();
    library.rank = rank;
    library.ranks = ranks;
    library.self = &job;
    library.functions[PEERS_ALLREDUCE] = allreduce;
    library.functions[PEERS_ALLTOALL] = alltoall;
    library.functions[PEERS_ALLGATHER] = allgather;
    library.functions[PEERS_BROADCAST] = broadcast;
    int failed = peers_serve(&library);
    _exit(failed); // its threads have nothing left to say
}
