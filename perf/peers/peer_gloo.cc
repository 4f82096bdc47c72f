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
#include <gloo/transport/unbound_buffer.h>

struct Job {
    std::shared_ptr<gloo::rendezvous::Context> context;
    uint32_t tag = 0;
    uint64_t slot = 0; // of messages: both ranks count alike
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

// Messages as PyTorch sends them: a buffer per message, and a slot for the sender and the receiver to meet in.
using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

static Buffer start_send(Job *job, const void *data, size_t bytes, int peer)
{
    Buffer buffer = job->context->createUnboundBuffer(const_cast<void *>(data), bytes);
    buffer->send(peer, job->slot++);
    return buffer;
}

static Buffer start_recv(Job *job, void *data, size_t bytes, int peer)
{
    Buffer buffer = job->context->createUnboundBuffer(data, bytes);
    buffer->recv(peer, job->slot++);
    return buffer;
}

static int pingpong(void *self, const peers_call *call)
{
    auto *job = static_cast<Job *>(self);
    size_t bytes = call->count * sizeof(float);
    int first = job->context->rank == 0, peer = first ? 1 : 0;
    if (job->context->rank > 1)
        return 0;
    try {
        if (first)
            start_send(job, call->send, bytes, peer)->waitSend();
        start_recv(job, call->recv, bytes, peer)->waitRecv();
        if (!first)
            start_send(job, call->send, bytes, peer)->waitSend();
    } catch (const std::exception &error) {
        fprintf(stderr, "gloo, a round trip: %s\n", error.what());
        return 1;
    }
    return 0;
}

static int window(void *self, const peers_call *call)
{
    auto *job = static_cast<Job *>(self);
    size_t bytes = call->count * sizeof(float);
    char answer = 0;
    Buffer buffers[PEERS_WINDOW_MESSAGES];
    if (job->context->rank > 1)
        return 0;
    try {
        if (job->context->rank == 0) {
            for (int i = 0; i < PEERS_WINDOW_MESSAGES; i++)
                buffers[i] = start_send(job, call->send + peers_message_at(call, i), bytes, 1);
            for (auto &buffer : buffers)
                buffer->waitSend();
            start_recv(job, &answer, 1, 1)->waitRecv();
            return 0;
        }
        // A new receive waits for the one whose place it takes.
        for (int i = 0; i < PEERS_WINDOW_MESSAGES + call->places; i++) {
            if (i >= call->places)
                buffers[i - call->places]->waitRecv();
            if (i < PEERS_WINDOW_MESSAGES)
                buffers[i] = start_recv(job, call->recv + peers_message_at(call, i), bytes, 0);
        }
        start_send(job, &answer, 1, 0)->waitSend();
    } catch (const std::exception &error) {
        fprintf(stderr, "gloo, a window: %s\n", error.what());
        return 1;
    }
    return 0;
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
    library.functions[PEERS_PINGPONG] = pingpong;
    library.functions[PEERS_WINDOW] = window;
    int failed = peers_serve(&library);
    _exit(failed); // its threads have nothing left to say
}
