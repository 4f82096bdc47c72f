// SPDX-License-Identifier: Apache-2.0
// Collectives on one tensor, or on lists of which each tensor is a collective of its own.
#include <algorithm>
#include <utility>

#include "bindings/torch/csrc/launch.hpp"

namespace torch_weft
{

static void check_same_type(const at::Tensor &one, const at::Tensor &other, const char *name)
{
    TORCH_CHECK(one.scalar_type() == other.scalar_type(), "weft: ", name, ": tensors of ", one.scalar_type(),
                " and of ", other.scalar_type());
}

static void start_allreduce(Launch &launch, const at::Tensor &tensor, const c10d::ReduceOp &op)
{
    Reduction reduction = launch.reduction(op, tensor);
    at::Tensor data = launch.inout(tensor);
    at::Tensor from = Launch::scaled(data, reduction);
    if (!from.is_same(data))
        data.detach().copy_(from);
    launch.start([&](weft_comm *comm, const weft_call_options *options) {
        return weft_allreduce(comm, data.data_ptr(), data.data_ptr(), static_cast<size_t>(data.numel()),
                              reduction.dtype, reduction.op, options);
    });
}

Backend::WorkPointer Backend::allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts)
{
    const at::Tensor &tensor = only(tensors, "allreduce");
    if (tensor.layout() == at::kSparse)
        return allreduce_sparse(tensors, opts);
    Launch launch(*this, c10d::OpType::ALLREDUCE, "allreduce", tensor, opts.timeout, opts.asyncOp);
    start_allreduce(launch, tensor, opts.reduceOp);
    return launch.finish(tensors);
}

Backend::WorkPointer Backend::allreduce_coalesced(Tensors &tensors,
                                                  const c10d::AllreduceCoalescedOptions &opts)
{
    TORCH_CHECK(!tensors.empty(), "weft: allreduce_coalesced: no tensors");
    Launch launch(*this, c10d::OpType::ALLREDUCE_COALESCED, "allreduce_coalesced", tensors, opts.timeout,
                  opts.asyncOp);
    const bool is_uniform = std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor &tensor) {
        return tensor.scalar_type() == tensors.front().scalar_type();
    });
    Reduction reduction = launch.reduction(opts.reduceOp, tensors.front());
    if (!is_uniform || reduction.factor.defined()) {
        for (const at::Tensor &tensor : tensors)
            start_allreduce(launch, tensor, opts.reduceOp);
        return launch.finish(tensors);
    }
    std::vector<void *> memory;
    std::vector<size_t> counts;
    for (const at::Tensor &tensor : tensors) {
        at::Tensor data = launch.inout(tensor);
        memory.push_back(data.data_ptr());
        counts.push_back(static_cast<size_t>(data.numel()));
    }
    launch.start([&](weft_comm *comm, const weft_call_options *options) {
        return weft_allreduce_list(comm, memory.size(), memory.data(), memory.data(), counts.data(),
                                   reduction.dtype, reduction.op, options);
    });
    return launch.finish(tensors);
}

Backend::WorkPointer Backend::broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts)
{
    const at::Tensor &tensor = only(tensors, "broadcast");
    const int root = root_of(opts.rootRank, getSize(), "broadcast");
    Launch launch(*this, c10d::OpType::BROADCAST, "broadcast", tensor, opts.timeout, opts.asyncOp);
    const Elements elements = moved_as(tensor.scalar_type());
    at::Tensor data = getRank() == root ? launch.input(tensor) : launch.output(tensor);
    launch.start([&](weft_comm *comm, const weft_call_options *options) {
        return weft_broadcast(comm, data.data_ptr(), data.data_ptr(), moved_count(data, elements),
                              elements.dtype, root, options);
    });
    return launch.finish(tensors);
}

Backend::WorkPointer Backend::reduce(Tensors &tensors, const c10d::ReduceOptions &opts)
{
    const at::Tensor &tensor = only(tensors, "reduce");
    const int root = root_of(opts.rootRank, getSize(), "reduce");
    Launch launch(*this, c10d::OpType::REDUCE, "reduce", tensor, opts.timeout, opts.asyncOp);
    Reduction reduction = launch.reduction(opts.reduceOp, tensor);
    at::Tensor data = getRank() == root ? launch.inout(tensor) : launch.input(tensor);
    at::Tensor from = launch.input(Launch::scaled(data, reduction));
    launch.start([&](weft_comm *comm, const weft_call_options *options) {
        return weft_reduce(comm, from.data_ptr(), data.data_ptr(), static_cast<size_t>(data.numel()),
                           reduction.dtype, reduction.op, root, options);
    });
    return launch.finish(tensors);
}

static void start_allgather(Launch &launch, const at::Tensor &output, const at::Tensor &input, int ranks)
{
    check_same_type(output, input, "all_gather");
    TORCH_CHECK(output.numel() == input.numel() * ranks, "weft: all_gather: the output has ", output.numel(),
                " elements, the input ", input.numel(), ", of ", ranks, " ranks");
    const Elements elements = moved_as(input.scalar_type());
    at::Tensor from = launch.input(input), to = launch.output(output);
    launch.start([&](weft_comm *comm, const weft_call_options *options) {
        return weft_allgather(comm, from.data_ptr(), to.data_ptr(), moved_count(from, elements),
                              elements.dtype, options);
    });
}

Backend::WorkPointer Backend::_allgather_base(at::Tensor &output, at::Tensor &input,
                                              const c10d::AllgatherOptions &opts)
{
    Launch launch(*this, c10d::OpType::_ALLGATHER_BASE, "all_gather_into_tensor", input, opts.timeout,
                  opts.asyncOp);
    start_allgather(launch, output, input, getSize());
    return launch.finish({output});
}

static void check_pairs(const std::vector<at::Tensor> &outputs, const std::vector<at::Tensor> &inputs,
                        const char *name)
{
    TORCH_CHECK(!inputs.empty() && inputs.size() == outputs.size(), "weft: ", name, ": ", inputs.size(),
                " inputs and ", outputs.size(), " outputs");
}

Backend::WorkPointer Backend::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                              const c10d::AllgatherOptions &opts)
{
    check_pairs(outputs, inputs, "allgather_into_tensor_coalesced");
    Launch launch(*this, c10d::OpType::COALESCED, "allgather_into_tensor_coalesced", inputs, opts.timeout,
                  opts.asyncOp);
    for (size_t i = 0; i < inputs.size(); i++)
        start_allgather(launch, outputs[i], inputs[i], getSize());
    return launch.finish(outputs);
}

static void start_reduce_scatter(Launch &launch, const at::Tensor &output, const at::Tensor &input, int ranks,
                                 const c10d::ReduceOp &op)
{
    check_same_type(output, input, "reduce_scatter");
    TORCH_CHECK(input.numel() == output.numel() * ranks, "weft: reduce_scatter: the input has ",
                input.numel(), " elements, the output ", output.numel(), ", of ", ranks, " ranks");
    Reduction reduction = launch.reduction(op, input);
    at::Tensor from = launch.input(Launch::scaled(input, reduction)), to = launch.output(output);
    launch.start([&](weft_comm *comm, const weft_call_options *options) {
        return weft_reduce_scatter(comm, from.data_ptr(), to.data_ptr(), static_cast<size_t>(to.numel()),
                                   reduction.dtype, reduction.op, options);
    });
}

Backend::WorkPointer Backend::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                                   const c10d::ReduceScatterOptions &opts)
{
    Launch launch(*this, c10d::OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_tensor", input, opts.timeout,
                  opts.asyncOp);
    start_reduce_scatter(launch, output, input, getSize(), opts.reduceOp);
    return launch.finish({output});
}

Backend::WorkPointer Backend::reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                              const c10d::ReduceScatterOptions &opts)
{
    check_pairs(outputs, inputs, "reduce_scatter_tensor_coalesced");
    Launch launch(*this, c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED, "reduce_scatter_tensor_coalesced",
                  inputs, opts.timeout, opts.asyncOp);
    for (size_t i = 0; i < inputs.size(); i++)
        start_reduce_scatter(launch, outputs[i], inputs[i], getSize(), opts.reduceOp);
    return launch.finish(outputs);
}

// Rows of the first dimension, as elements of weft's. Empty: equal shares.
static std::vector<size_t> counts_of(const at::Tensor &tensor, const std::vector<int64_t> &splits, int ranks,
                                     const Elements &elements, const char *which)
{
    const int64_t rows = tensor.dim() ? tensor.size(0) : 0;
    if (splits.empty()) {
        TORCH_CHECK(rows % ranks == 0, "weft: all_to_all_single: the ", which, "'s first dimension, ", rows,
                    ", cannot be divided by ", ranks, " ranks");
        return std::vector<size_t>(static_cast<size_t>(ranks),
                                   moved_count(tensor, elements) / static_cast<size_t>(ranks));
    }
    TORCH_CHECK(splits.size() == static_cast<size_t>(ranks), "weft: all_to_all_single: ", splits.size(), " ",
                which, " splits for ", ranks, " ranks");
    const size_t row = rows ? moved_count(tensor, elements) / static_cast<size_t>(rows) : 0;
    std::vector<size_t> counts;
    int64_t sum = 0;
    for (int64_t split : splits) {
        TORCH_CHECK(split >= 0, "weft: all_to_all_single: ", which, " split ", split);
        counts.push_back(static_cast<size_t>(split) * row);
        sum += split;
    }
    TORCH_CHECK(sum == rows, "weft: all_to_all_single: the ", which, " splits add up to ", sum,
                ", its first dimension is ", rows);
    return counts;
}

Backend::WorkPointer Backend::alltoall_base(at::Tensor &output, at::Tensor &input,
                                            std::vector<int64_t> &output_splits,
                                            std::vector<int64_t> &input_splits,
                                            const c10d::AllToAllOptions &opts)
{
    Launch launch(*this, c10d::OpType::ALLTOALL_BASE, "all_to_all_single", input, opts.timeout, opts.asyncOp);
    check_same_type(output, input, "all_to_all_single");
    const Elements elements = moved_as(input.scalar_type());
    const auto sent = counts_of(input, input_splits, getSize(), elements, "input");
    const auto received = counts_of(output, output_splits, getSize(), elements, "output");
    at::Tensor from = launch.input(input), to = launch.output(output);
    launch.start([&](weft_comm *comm, const weft_call_options *options) {
        return weft_alltoallv(comm, from.data_ptr(), sent.data(), nullptr, to.data_ptr(), received.data(),
                              nullptr, elements.dtype, options);
    });
    return launch.finish({output});
}

Backend::WorkPointer Backend::barrier(const c10d::BarrierOptions &opts)
{
    Launch launch(*this, c10d::OpType::BARRIER, "barrier", {}, opts.timeout, opts.asyncOp);
    launch.start(
        [](weft_comm *comm, const weft_call_options *options) { return weft_barrier(comm, options); });
    return launch.finish({});
}

} // namespace torch_weft
