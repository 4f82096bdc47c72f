// SPDX-License-Identifier: Apache-2.0
// What PyTorch holds of an operation, or of several that were made between startCoalescing() and endCoalescing().
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <c10/core/Event.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "bindings/torch/csrc/operation.hpp"

namespace torch_weft
{

class Work : public c10d::Work
{
  public:
    using Operations = std::vector<std::shared_ptr<Operation>>;
    using Events = std::vector<std::shared_ptr<c10::Event>>;

    // events: of stream-ordered operations, behind them: wait() then orders the caller's stream. A
    // barrier has none: it blocks the host.
    Work(int rank, c10d::OpType type, uint64_t sequence, Operations operations, Events events);
    ~Work() override;

    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    int sourceRank() const override;
    std::vector<at::Tensor> result() override;
    void synchronize() override;
    bool wait(std::chrono::milliseconds timeout) override;
    // Waits since a moment in the past for a part of the time: false where it has not ended and there is more. Throws that time is up.
    bool wait_part(std::chrono::milliseconds timeout, Operation::Clock::time_point since,
                   std::chrono::milliseconds part);
    bool has_events() const
    {
        return !events_.empty();
    }
    void blockCurrentStream() override;
    void abort() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
    // Milliseconds from the first call to the last one's end.
    float getDuration() const override;
    uint64_t getSequencenumber() const override
    {
        return sequence_;
    }

  private:
    bool have_ended() const;
    void await(std::chrono::milliseconds timeout);
    void forget();

    const uint64_t sequence_;
    const Operations operations_;
    const Events events_;
    std::mutex futures_;
    c10::intrusive_ptr<c10::ivalue::Future> future_, result_;
};

} // namespace torch_weft
