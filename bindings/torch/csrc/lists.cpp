// SPDX-License-Identifier: Apache-2.0
// Collectives on a tensor per rank: their memory is one piece for weft, the tensors' own where they lie in a row.
#include <algorithm>
#include <utility>

#include "bindings/torch/csrc/launch.hpp"

namespace torch_weft
{

using Tensors = std::vector<at::Tensor>;

// The list of the one place that this process is.
static const Tensors &only(const std::vector<Tensors> &lists, int ranks, const char *name)
{
    TORCH_CHECK(lists.size() == 1, "weft: ", name, ": one list of tensors is expected, there are ",
                lists.size());
    TORCH_CHECK(lists.front().size() == static_cast<size_t>(ranks), "weft: ", name, ": ",
                lists.front().size(), " tensors in the list for ", ranks, " ranks");
    return lists.front();
}

// How much of weft's each has.
static std::vector<size_t> counts_of(const Tensors &tensors, const at::Tensor &like, const char *name)
{
    const Elements elements = moved_as(like.scalar_type());
    std::vector<size_t> counts;
    for (const at::Tensor &tensor : tensors) {
        TORCH_CHECK(tensor.scalar_type() == like.scalar_type(), "weft: ", name, ": tensors of ",
                    tensor.scalar_type(), " and of ", like.scalar_type());
        counts.push_back(static_cast<size_t>(tensor.numel()) * elements.per_element);
    }
    return counts;
}

static bool are_equal(const std::vector<size_t> &counts)
{
    return std::all_of(counts.begin(), counts.end(), [&](size_t count) { return count == counts.front(); });
}

static void check_own(size_t listed, size_t own, const char *name)
{
    TORCH_CHECK(listed == own, "weft: ", name, ": this rank's tensor has ", own,
                " elements, its place in the list ", listed);
}

static void start_allgather(Launch &launch, const Tensors &outputs, const at::Tensor &input, int rank)
{
    const auto counts = counts_of(outputs, input, "all_gather");
    const Elements elements = moved_as(input.scalar_type());
    const size_t own = moved_count(input, elements);
    check_own(counts[static_cast<size_t>(rank)], own, "all_gather");
    at::Tensor from = launch.input(input), to = launch.joined_output(outputs);
    launch.start([&](weft_comm *comm, const weft_call_options *options) {
        if (are_equal(counts))
            return weft_allgather(comm, from.data_ptr(), to.data_ptr(), own, elements.dtype, options);
        return weft_allgatherv(comm, from.data_ptr(), own, to.data_ptr(), counts.data(), nullptr,
                               elements.dtype, options);
    });
}

Backend::WorkPointer Backend::allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                                        const c10d::AllgatherOptions &opts)
{
    const at::Tensor &input = only(inputs, "all_gather");
    const Tensors &mine = only(outputs, getSize(), "all_gather");
    Launch launch(*this, c10d::OpType::ALLGATHER, "all_gather", input, opts.timeout, opts.asyncOp);
    start_allgather(launch, mine, input, getRank());
    return launch.finish(mine);
}

// outputs[r][i]: rank r's input i.
Backend::WorkPointer Backend::allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                                  const c10d::AllgatherOptions &opts)
{
    TORCH_CHECK(!inputs.empty(), "weft: all_gather_coalesced: no tensors");
    TORCH_CHECK(outputs.size() == static_cast<size_t>(getSize()),
                "weft: all_gather_coalesced: ", outputs.size(), " lists for ", getSize(), " ranks");
    Launch launch(*this, c10d::OpType::ALLGATHER_COALESCED, "all_gather_coalesced", inputs, opts.timeout,
                  opts.asyncOp);
    Tensors all;
    for (const Tensors &list : outputs) {
        TORCH_CHECK(list.size() == inputs.size(), "weft: all_gather_coalesced: ", list.size(),
                    " outputs for ", inputs.size(), " inputs");
        all.insert(all.end(), list.begin(), list.end());
    }
    for (size_t i = 0; i < inputs.size(); i++) {
        Tensors of_input;
        for (const Tensors &list : outputs)
            of_input.push_back(list[i]);
        start_allgather(launch, of_input, inputs[i], getRank());
    }
    return launch.finish(all);
}

Backend::WorkPointer Backend::gather(std::vector<Tensors> &outputs, Tensors &inputs,
                                     const c10d::GatherOptions &opts)
{
    const at::Tensor &input = only(inputs, "gather");
    const int root = root_of(opts.rootRank, getSize(), "gather");
    const bool is_root = getRank() == root;
    TORCH_CHECK(is_root || outputs.empty() || (outputs.size() == 1 && outputs.front().empty()),
                "weft: gather: only the root has outputs");
    const Tensors mine = is_root ? only(outputs, getSize(), "gather") : Tensors{};
    Launch launch(*this, c10d::OpType::GATHER, "gather", input, opts.timeout, opts.asyncOp);
    const auto counts = counts_of(mine, input, "gather");
    const Elements elements = moved_as(input.scalar_type());
    const size_t own = moved_count(input, elements);
    at::Tensor from = launch.input(input), to;
    if (is_root) {
        check_own(counts[static_cast<size_t>(root)], own, "gather");
        to = launch.joined_output(mine);
    }
    launch.start([&](weft_comm *comm, const weft_call_options *options) {
        return weft_gatherv(comm, from.data_ptr(), own, is_root ? to.data_ptr() : nullptr, counts.data(),
                            nullptr, elements.dtype, root, options);
    });
    return launch.finish(mine);
}

Backend::WorkPointer Backend::scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                                      const c10d::ScatterOptions &opts)
{
    const at::Tensor &output = only(outputs, "scatter");
    const int root = root_of(opts.rootRank, getSize(), "scatter");
    const bool is_root = getRank() == root;
    TORCH_CHECK(is_root || inputs.empty() || (inputs.size() == 1 && inputs.front().empty()),
                "weft: scatter: only the root has inputs");
    const Tensors mine = is_root ? only(inputs, getSize(), "scatter") : Tensors{};
    Launch launch(*this, c10d::OpType::SCATTER, "scatter", output, opts.timeout, opts.asyncOp);
    const auto counts = counts_of(mine, output, "scatter");
    const Elements elements = moved_as(output.scalar_type());
    const size_t own = moved_count(output, elements);
    at::Tensor from, to = launch.output(output);
    if (is_root) {
        check_own(counts[static_cast<size_t>(root)], own, "scatter");
        from = launch.joined_input(mine, output);
    }
    launch.start([&](weft_comm *comm, const weft_call_options *options) {
        return weft_scatterv(comm, is_root ? from.data_ptr() : nullptr, counts.data(), nullptr, to.data_ptr(),
                             own, elements.dtype, root, options);
    });
    return launch.finish(outputs);
}

Backend::WorkPointer Backend::reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                                             const c10d::ReduceScatterOptions &opts)
{
    const at::Tensor &output = only(outputs, "reduce_scatter");
    const Tensors &mine = only(inputs, getSize(), "reduce_scatter");
    Launch launch(*this, c10d::OpType::REDUCE_SCATTER, "reduce_scatter", mine, opts.timeout, opts.asyncOp);
    const auto counts = counts_of(mine, output, "reduce_scatter");
    check_own(counts[static_cast<size_t>(getRank())], static_cast<size_t>(output.numel()), "reduce_scatter");
    Reduction reduction = launch.reduction(opts.reduceOp, output);
    at::Tensor from = launch.joined_input(mine, output), to = launch.output(output);
    from = launch.input(Launch::scaled(from, reduction));
    launch.start([&](weft_comm *comm, const weft_call_options *options) {
        if (are_equal(counts))
            return weft_reduce_scatter(comm, from.data_ptr(), to.data_ptr(), counts.front(), reduction.dtype,
                                       reduction.op, options);
        return weft_reduce_scatterv(comm, from.data_ptr(), to.data_ptr(), counts.data(), reduction.dtype,
                                    reduction.op, options);
    });
    return launch.finish(outputs);
}

Backend::WorkPointer Backend::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &opts)
{
    const auto ranks = static_cast<size_t>(getSize());
    TORCH_CHECK(inputs.size() == ranks && outputs.size() == ranks, "weft: all_to_all: ", inputs.size(),
                " inputs and ", outputs.size(), " outputs for ", ranks, " ranks");
    const at::Tensor &like = inputs.front();
    Launch launch(*this, c10d::OpType::ALLTOALL, "all_to_all", inputs, opts.timeout, opts.asyncOp);
    const auto sent = counts_of(inputs, like, "all_to_all"),
               received = counts_of(outputs, like, "all_to_all");
    at::Tensor from = launch.joined_input(inputs), to = launch.joined_output(outputs);
    launch.start([&](weft_comm *comm, const weft_call_options *options) {
        return weft_alltoallv(comm, from.data_ptr(), sent.data(), nullptr, to.data_ptr(), received.data(),
                              nullptr, moved_as(like.scalar_type()).dtype, options);
    });
    return launch.finish(outputs);
}

} // namespace torch_weft
