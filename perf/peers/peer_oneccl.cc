// SPDX-License-Identifier: Apache-2.0
// oneCCL's collectives and messages on processors, over its OFI transport and without a launcher. Each call is waited for.
#include "perf/peers/loop.h"

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <oneapi/ccl.hpp>

struct Job {
    std::unique_ptr<ccl::communicator> comm;
    int rank = 0, ranks = 0;
};

// Waits, and makes a status of what is thrown.
template <typename Call> static int run(const char *name, Call call)
{
    try {
        call().wait();
    } catch (const std::exception &error) {
        fprintf(stderr, "oneCCL, %s: %s\n", name, error.what());
        return 1;
    }
    return 0;
}

static int allreduce(void *self, const peers_call *call)
{
    auto *job = static_cast<Job *>(self);
    return run("allreduce", [&] {
        return ccl::allreduce(call->send, call->recv, call->count, ccl::reduction::sum, *job->comm);
    });
}

static int alltoall(void *self, const peers_call *call)
{
    auto *job = static_cast<Job *>(self);
    return run("alltoall", [&] { return ccl::alltoall(call->send, call->recv, call->count, *job->comm); });
}

static int allgather(void *self, const peers_call *call)
{
    auto *job = static_cast<Job *>(self);
    const std::vector<size_t> counts(static_cast<size_t>(job->ranks), call->count);
    return run("allgather",
               [&] { return ccl::allgatherv(call->send, call->count, call->recv, counts, *job->comm); });
}

// In place: at the root what it sends, elsewhere what it receives.
static int broadcast(void *self, const peers_call *call)
{
    auto *job = static_cast<Job *>(self);
    float *buffer = job->rank == call->root ? const_cast<float *>(call->send) : call->recv;
    return run("broadcast", [&] { return ccl::broadcast(buffer, call->count, call->root, *job->comm); });
}

static int pingpong(void *self, const peers_call *call)
{
    auto *job = static_cast<Job *>(self);
    const int first = job->rank == 0, peer = !job->rank;
    auto *out = const_cast<float *>(call->send);
    int status = 0;
    if (job->rank > 1)
        return 0;
    if (first)
        status = run("send", [&] { return ccl::send(out, call->count, peer, *job->comm); });
    if (status == 0)
        status = run("recv", [&] { return ccl::recv(call->recv, call->count, peer, *job->comm); });
    if (status == 0 && !first)
        status = run("send", [&] { return ccl::send(out, call->count, peer, *job->comm); });
    return status;
}

// The address of rank 0's store, by a file that appears when it is whole.
static std::shared_ptr<ccl::kvs> meet(int rank)
{
    const std::string path = std::string(peers_environment("PEERS_STORE", ".")) + "/address";
    ccl::kvs::address_type address;
    if (rank == 0) {
        auto made = ccl::create_main_kvs();
        address = made->get_address();
        std::ofstream(path + ".new", std::ios::binary)
            .write(address.data(), static_cast<std::streamsize>(address.size()));
        if (rename((path + ".new").c_str(), path.c_str()) != 0)
            throw std::runtime_error("cannot write " + path);
        return made;
    }
    std::ifstream file;
    for (int tries = 0; tries < 20000 && !file.is_open(); tries++) {
        file.open(path, std::ios::binary);
        if (!file.is_open())
            usleep(1000);
    }
    if (!file.read(address.data(), static_cast<std::streamsize>(address.size())))
        throw std::runtime_error("cannot read " + path);
    return ccl::create_kvs(address);
}

int main()
{
    peers_library library = {};
    library.start_ns = peers_now_ns();
    int rank = peers_pin(), ranks = atoi(peers_environment("PEERS_RANKS", "2"));
    Job job;
    std::string version;
    try {
        ccl::init();
        const auto known = ccl::get_library_version();
        version = "oneCCL " + std::to_string(known.major) + "." + std::to_string(known.minor) + "." +
                  std::to_string(known.update);
        job.comm.reset(new ccl::communicator(ccl::create_communicator(ranks, rank, meet(rank))));
    } catch (const std::exception &error) {
        fprintf(stderr, "rank %d: oneCCL does not start: %s\n", rank, error.what());
        return 1;
    }
    job.rank = library.rank = rank;
    job.ranks = library.ranks = ranks;
    library.version = version.c_str();
    library.self = &job;
    library.functions[PEERS_ALLREDUCE] = allreduce;
    library.functions[PEERS_ALLTOALL] = alltoall;
    library.functions[PEERS_ALLGATHER] = allgather;
    library.functions[PEERS_BROADCAST] = broadcast;
    library.functions[PEERS_PINGPONG] = pingpong;
    int failed = peers_serve(&library);
    _exit(failed); // its threads have nothing left to say
}
