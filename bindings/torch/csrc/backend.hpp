// SPDX-License-Identifier: Apache-2.0
// ProcessGroup's backend "weft".
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "bindings/torch/csrc/group.hpp"
#include "bindings/torch/csrc/library.hpp"
#include "bindings/torch/csrc/operation.hpp"

namespace torch_weft
{

inline constexpr const char *NAME = "weft";

struct WeftOptions : c10d::Backend::Options {
    explicit WeftOptions(std::chrono::milliseconds timeout = kBackendDefaultTimeout)
        : c10d::Backend::Options(NAME, timeout)
    {
    }

    // As struct weft_context_options has them.
    std::string settings;
};

class Backend : public c10d::Backend
{
  public:
    using Tensors = std::vector<at::Tensor>;
    using WorkPointer = c10::intrusive_ptr<c10d::Work>;

    // All ranks at the same time.
    // look: called now and then while the ranks meet; what it throws ends that.
    Backend(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
            c10::intrusive_ptr<WeftOptions> options, void (*look)());
    Backend(std::shared_ptr<Group> group, int rank, int size, c10::intrusive_ptr<WeftOptions> options);
    ~Backend() override;

    const std::string getBackendName() const override
    {
        return NAME;
    }
    // A copy: who splits a group changes them.
    c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override
    {
        return c10::make_intrusive<WeftOptions>(*options_);
    }
    bool supportsSplitting() const override
    {
        return true;
    }
    bool supportsCoalescing() const override
    {
        return true;
    }

    // --- collectives.cpp
    WorkPointer broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts) override;
    WorkPointer allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts) override;
    WorkPointer allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &opts) override;
    WorkPointer allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &opts) override;
    WorkPointer reduce(Tensors &tensors, const c10d::ReduceOptions &opts) override;
    WorkPointer _allgather_base(at::Tensor &output, at::Tensor &input,
                                const c10d::AllgatherOptions &opts) override;
    WorkPointer allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                const c10d::AllgatherOptions &opts) override;
    WorkPointer _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                     const c10d::ReduceScatterOptions &opts) override;
    WorkPointer reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                const c10d::ReduceScatterOptions &opts) override;
    WorkPointer alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                              std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &opts) override;
    WorkPointer barrier(const c10d::BarrierOptions &opts) override;

    // --- lists.cpp: a tensor per rank
    WorkPointer allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                          const c10d::AllgatherOptions &opts) override;
    WorkPointer allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                    const c10d::AllgatherOptions &opts) override;
    WorkPointer gather(std::vector<Tensors> &outputs, Tensors &inputs,
                       const c10d::GatherOptions &opts) override;
    WorkPointer scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                        const c10d::ScatterOptions &opts) override;
    WorkPointer reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                               const c10d::ReduceScatterOptions &opts) override;
    WorkPointer alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &opts) override;

    // --- messages.cpp
    WorkPointer send(Tensors &tensors, int peer, int tag) override;
    WorkPointer recv(Tensors &tensors, int peer, int tag) override;
    WorkPointer recvAnysource(Tensors &tensors, int tag) override;
    void monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all_ranks) override;

    // --- backend.cpp
    void startCoalescing() override;
    WorkPointer endCoalescing() override;
    c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store> &store,
                                            const std::vector<int> &ranks,
                                            const c10::intrusive_ptr<c10d::Backend::Options> &opts) override;
    bool supportsShrinking() const override
    {
        return true;
    }
    c10::intrusive_ptr<c10d::Backend> shrink(const std::vector<int64_t> &excluded, int flags,
                                             const c10::intrusive_ptr<c10d::Backend::Options> &opts) override;
    void setSequenceNumberForGroup() override
    {
    } // counted from 0 on all ranks
    uint64_t getSequenceNumberForGroup() override
    {
        return sequence_;
    }
    void enableCollectivesTiming() override
    {
        group_->time_operations();
    }
    void setTimeout(std::chrono::milliseconds timeout) override;
    c10d::ErrorType getError() override
    {
        return group_->error();
    }
    void abort() override;
    void shutdown() override;
    bool supportsTensorAlloc(c10::DeviceIndex) override;
    at::Tensor allocateTensor(long size, at::TensorOptions options) override;

    const std::shared_ptr<Group> &group() const
    {
        return group_;
    }

    // --- for Launch
    // The number of a collective that begins.
    uint64_t next_sequence()
    {
        return ++sequence_;
    }
    // Whether some thread coalesces calls.
    bool is_coalescing() const
    {
        return coalescing_threads_.load(std::memory_order_relaxed) != 0;
    }
    // Where the calling thread coalesces the operation is remembered for endCoalescing().
    void coalesce(const std::shared_ptr<Operation> &operation, const std::shared_ptr<c10::Event> &event);
    const WeftOptions &options() const
    {
        return *options_;
    }

  private:
    c10::intrusive_ptr<WeftOptions>
    options_of_part(const c10::intrusive_ptr<c10d::Backend::Options> &opts) const;

    // Where calls between startCoalescing() and endCoalescing() of one thread go.
    struct Coalescing {
        std::thread::id thread;
        std::vector<std::shared_ptr<Operation>> operations;
        std::vector<std::shared_ptr<c10::Event>> events; // of a device's
        uint64_t sequence;
        std::chrono::steady_clock::time_point since;
    };

    std::shared_ptr<Group> group_;
    c10::intrusive_ptr<WeftOptions> options_;
    std::atomic<uint64_t> sequence_{0};
    std::atomic<size_t> coalescing_threads_{0};
    std::mutex lock_; // what follows
    int64_t monitored_ = 0;
    std::list<Coalescing> coalescing_;
};

} // namespace torch_weft
