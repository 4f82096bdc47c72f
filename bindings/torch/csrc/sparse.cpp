// SPDX-License-Identifier: Apache-2.0
// Allreduce of sparse tensors: every rank gathers everybody's indices and values and adds them up in the order of ranks, so that all
// have the same bits. Their number differs between ranks and is gathered first: the call waits for that.
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "bindings/torch/csrc/backend.hpp"
#include "bindings/torch/csrc/work.hpp"

namespace torch_weft
{

using Tensors = std::vector<at::Tensor>;

static std::vector<int64_t> gather_lengths(Backend &backend, int64_t length,
                                           const c10d::AllgatherOptions &opts)
{
    at::Tensor mine = at::full({1}, length, at::kLong), all = at::empty({backend.getSize()}, at::kLong);
    backend._allgather_base(all, mine, opts)->wait(kNoTimeout);
    const int64_t *lengths = all.const_data_ptr<int64_t>();
    return {lengths, lengths + all.numel()};
}

Backend::WorkPointer Backend::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &opts)
{
    TORCH_CHECK(tensors.size() == 1 && tensors.front().layout() == at::kSparse,
                "weft: allreduce of sparse tensors: one is expected");
    TORCH_CHECK(opts.reduceOp == c10d::ReduceOp::SUM, "weft: sparse tensors can be added, not more");
    const auto begin = Operation::Clock::now();
    at::NoGradGuard no_grad;
    at::Tensor &tensor = tensors.front();
    at::Tensor mine = tensor.coalesce();
    c10d::AllgatherOptions gather;
    gather.timeout = opts.timeout;
    const auto lengths = gather_lengths(*this, mine._nnz(), gather);

    std::vector<Tensors> indices(1), values(1);
    at::Tensor own_indices = mine._indices().t().contiguous(), own_values = mine._values().contiguous();
    for (int64_t length : lengths) {
        std::vector<int64_t> shape = own_values.sizes().vec();
        shape[0] = length;
        indices[0].push_back(at::empty({length, own_indices.size(1)}, own_indices.options()));
        values[0].push_back(at::empty(shape, own_values.options()));
    }
    Tensors index_input{own_indices}, value_input{own_values};
    allgather(indices, index_input, gather)->wait(kNoTimeout);
    allgather(values, value_input, gather)->wait(kNoTimeout);

    at::Tensor sum;
    for (size_t rank = 0; rank < lengths.size(); rank++) {
        at::Tensor part = at::_sparse_coo_tensor_unsafe(indices[0][rank].t(), values[0][rank], mine.sizes(),
                                                        mine.options());
        sum = sum.defined() ? sum.add_(part) : part;
    }
    tensor.copy_(sum.coalesce());
    auto done = std::make_shared<Operation>(group_, "allreduce", false, kNoTimeout);
    if (group_->is_timed())
        done->time(begin);
    done->give({tensor});
    done->end_at_once();
    return c10::make_intrusive<Work>(getRank(), c10d::OpType::_ALLREDUCE_SPARSE, getSequenceNumberForGroup(),
                                     Work::Operations{std::move(done)}, Work::Events{});
}

} // namespace torch_weft
