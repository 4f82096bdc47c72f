// Gloo's allreduce over TCP on loopback, as PyTorch calls it. Variants: 0 ring, 1 bcube (halving and
// doubling).
#include "perf/peers/loop.h"

#include <chrono>
#include <memory>
#include <string>

#include <gloo/allreduce.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

struct Job {
    std::shared_ptr<gloo::rendezvous::Context> context;
    uint32_t tag = 0;
};

static int allreduce(void *self, const float *send, float *recv, size_t count, int variant)
{
    auto *job = static_cast<Job *>(self);
    gloo::AllreduceOptions options(job->context);
    options.setInput(const_cast<float *>(send), count);
    options.setOutput(recv, count);
    options.setReduceFunction(
        static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
    options.setAlgorithm(variant == 0 ? gloo::AllreduceOptions::Algorithm::RING
                                      : gloo::AllreduceOptions::Algorithm::BCUBE);
    options.setTag(job->tag++);
    try {
        gloo::allreduce(options);
    } catch (const std::exception &error) {
        fprintf(stderr, "gloo::allreduce: %s\n", error.what());
        return 1;
    }
    return 0;
}

int main()
{
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
    peers_library library = {version.c_str(), rank, ranks, allreduce, nullptr, &job};
    int failed = peers_serve(&library);
    _exit(failed); // its threads have nothing left to say
}
