// SPDX-License-Identifier: Apache-2.0
// The module torch_weft._C: how Python makes the backend and looks into it.
#include <exception>
#include <utility>

#include <unistd.h>

#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/torch/csrc/backend.hpp"
#include "bindings/torch/csrc/leaving.hpp"
#include "bindings/torch/csrc/work.hpp"

namespace torch_weft
{

namespace py = pybind11;

// The calling thread is Python's again. Where Python has come to its end meanwhile, it ends threads that come back, main's excepted, by unwinding
// them (until 3.13). Destructors on the way, as those of py::gil_scoped_release, may not be left like that, and the process would end with
// std::terminate(). So the thread stays here, as it does in later versions of Python, until the process ends.
static void come_back(PyThreadState *thread)
{
    try {
        PyEval_RestoreThread(thread);
    } catch (...) {
        for (;;)
            pause();
    }
}

// Makes a call that may take long, while other threads use Python.
template <typename Call> static auto without_python(Call call)
{
    PyThreadState *thread = PyEval_SaveThread();
    std::exception_ptr failure;
    decltype(call()) result{};
    try {
        result = call();
    } catch (...) {
        failure = std::current_exception();
    }
    come_back(thread);
    if (failure)
        std::rethrow_exception(failure);
    return result;
}

// Handlers of signals run in the main thread; for others looking is nothing.
static bool wait(Work &work, std::chrono::milliseconds timeout)
{
    const auto since = Operation::Clock::now();
    while (
        !without_python([&] { return work.wait_part(timeout, since, BETWEEN_LOOKS) && work.wait(timeout); }))
        if (PyErr_CheckSignals() != 0)
            throw py::error_already_set(); // the operation goes on
    return true;
}

// While a thread waits without Python: throws what a handler has raised.
static void look_for_signals()
{
    const py::gil_scoped_acquire python;
    if (PyErr_CheckSignals() != 0)
        throw py::error_already_set();
}

static c10::intrusive_ptr<c10d::Backend> make(const c10d::DistributedBackendOptions &asked,
                                              const c10::intrusive_ptr<c10d::Backend::Options> &given)
{
    auto *ours = dynamic_cast<WeftOptions *>(given.get());
    auto options = ours ? c10::make_intrusive<WeftOptions>(*ours) : c10::make_intrusive<WeftOptions>();
    options->timeout = std::chrono::duration_cast<std::chrono::milliseconds>(asked.timeout);
    options->group_name = asked.group_id;
    options->global_ranks_in_group.assign(asked.global_ranks_in_group.begin(),
                                          asked.global_ranks_in_group.end());
    return without_python([&]() -> c10::intrusive_ptr<c10d::Backend> {
        return c10::make_intrusive<Backend>(asked.store, asked.group_rank, asked.group_size,
                                            std::move(options), look_for_signals);
    });
}

static Backend &ours(c10d::Backend &backend)
{
    auto *found = dynamic_cast<Backend *>(&backend);
    TORCH_CHECK_TYPE(found, "a backend of weft's is expected, not of ", backend.getBackendName());
    return *found;
}

static std::string dump(c10d::Backend &backend)
{
    return without_python([&] { return ours(backend).group()->dump(); });
}

static py::dict stats(c10d::Backend &backend)
{
    const auto stats = without_python([&] { return ours(backend).group()->stats(); });
    py::dict dict;
    dict["operations"] = stats.operations;
    dict["bytes_eager"] = stats.bytes_eager;
    dict["bytes_direct"] = stats.bytes_direct;
    dict["bytes_staged"] = stats.bytes_staged;
    dict["messages"] = stats.messages;
    dict["fast_path"] = stats.fast_path;
    dict["connections"] = stats.connections;
    dict["registrations"] = stats.registrations;
    dict["bytes_memory"] = stats.bytes_memory;
    dict["bytes_pool"] = stats.bytes_pool;
    dict["p2p_sends"] = stats.p2p_sends;
    dict["p2p_receives"] = stats.p2p_receives;
    dict["device_collectives"] = stats.device_collectives;
    dict["bytes_mapped"] = stats.bytes_mapped;
    dict["bytes_pulled"] = stats.bytes_pulled;
    dict["bytes_offered"] = stats.bytes_offered;
    dict["bytes_helped"] = stats.bytes_helped;
    dict["bytes_fed"] = stats.bytes_fed;
    return dict;
}

// The program's end, with Python still there: afterwards no thread can report anything to Python, nor let go of its tensors.
static void end(bool has_failed)
{
    Group::end_all(has_failed);
    if (has_failed)
        return;
    Library::settle_all(std::chrono::milliseconds(1000));
    finish_leaving();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)
{
    py::module_::import("torch._C._distributed_c10d"); // whose classes ours come from
    py::class_<WeftOptions, c10::intrusive_ptr<WeftOptions>, c10d::Backend::Options>(module, "Options")
        .def(py::init([] { return c10::make_intrusive<WeftOptions>(); })) // the group's own timeout counts
        .def_readwrite("settings", &WeftOptions::settings)
        .def("__deepcopy__", [](const WeftOptions &self, const py::dict &) {
            return c10::make_intrusive<WeftOptions>(self);
        });
    using Ours = py::class_<Backend, c10::intrusive_ptr<Backend>, c10d::Backend>;
    Ours(module, "ProcessGroupWeft")
        .def_property_readonly("options", &Backend::getBackendOptions)
        .def("perform_nocolor_split",
             [](Backend &, const py::object &) {}); // members alone make a part of a group
    // What waits, of PyTorch's methods of a work.
    py::class_<Work, c10::intrusive_ptr<Work>, c10d::Work>(module, "Work")
        .def("wait", &wait, py::arg("timeout") = kNoTimeout)
        .def("synchronize", [](Work &work) { wait(work, kNoTimeout); })
        .def("block_current_stream", [](Work &work) {
            if (!work.has_events()) {
                wait(work, kNoTimeout);
                return;
            }
            without_python([&] {
                work.blockCurrentStream();
                return true;
            });
        });
    module.def("make", &make);
    module.def("stats", &stats);
    module.def("end", &end, py::call_guard<py::gil_scoped_release>()); // by the thread that ends Python
    module.def("end_process", &weft_process_end, py::call_guard<py::gil_scoped_release>());
    module.def("dump", &dump);
}

} // namespace torch_weft
