// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/library.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

namespace torch_weft
{

// Who uses PyTorch looks for "Timed out", with spaces around it.
std::string words_of(int status)
{
    const std::string words = weft_strerror(status);
    return status == WEFT_TIMEOUT ? "Timed out (" + words + ")" : words;
}

// The library's words are C's.
static std::string in_words_of_python(std::string text)
{
    static const std::string ours = "weft_comm_destroy", theirs = "destroy_process_group";
    for (size_t at = 0; (at = text.find(ours, at)) != std::string::npos; at += theirs.size())
        text.replace(at, ours.size(), theirs);
    return text;
}

void raise(int status, const std::string &what, const std::string &detail)
{
    std::string text = "weft: " + what + ": " + words_of(status);
    if (!detail.empty())
        text += ": " + in_words_of_python(detail);
    C10_THROW_ERROR(DistBackendError, text);
}

void check(int status, const char *what)
{
    if (status != WEFT_OK)
        raise(status, what, weft_error_detail());
}

int64_t milliseconds_of(std::chrono::milliseconds duration)
{
    return std::max<int64_t>(duration.count(), 1);
}

// Outlives the library where an operation does.
struct Library::Premuls {
    std::mutex lock;
    std::map<std::pair<weft_dtype, std::string>, std::weak_ptr<const weft_op>> made;
};

namespace
{

struct Contexts {
    std::mutex lock;
    std::map<std::string, std::weak_ptr<Library>> open;
};

} // namespace

// Not destroyed: groups may go later than this file's static objects.
static Contexts &contexts()
{
    static auto &all = *new Contexts;
    return all;
}

void Library::settle_all(std::chrono::milliseconds patience)
{
    std::vector<std::shared_ptr<Library>> libraries;
    {
        std::lock_guard<std::mutex> guard(contexts().lock);
        for (const auto &known : contexts().open)
            if (auto library = known.second.lock())
                libraries.push_back(std::move(library));
    }
    for (const auto &library : libraries)
        library->keeper().settle(patience);
}

std::shared_ptr<Library> Library::get(const std::string &settings)
{
    std::lock_guard<std::mutex> guard(contexts().lock);
    auto &known = contexts().open[settings];
    if (auto library = known.lock())
        return library;
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    options.settings = settings.c_str();
    weft_context *context = nullptr;
    check(weft_context_open(&options, &context), "opening a context");
    std::shared_ptr<Library> library(new Library(context));
    library->premuls_ = std::make_shared<Premuls>();
    known = library;
    return library;
}

Library::~Library()
{
    weft_context_close(context_);
}

static std::vector<weft_device_entry> devices_of(weft_context *context)
{
    int count = 0;
    check(weft_context_get_devices(context, nullptr, 0, &count), "listing devices");
    const weft_device_entry empty = WEFT_DEVICE_ENTRY_INIT;
    std::vector<weft_device_entry> entries(static_cast<size_t>(count), empty);
    const int room = count;
    check(weft_context_get_devices(context, entries.data(), room, &count), "listing devices");
    entries.resize(static_cast<size_t>(std::min(room, count)));
    return entries;
}

static Way find_way(weft_context *context, c10::Device device)
{
    const auto entries = devices_of(context);
    if (device.is_xpu())
        return way_of_xpu(entries, device);
    Way way;
    const std::string kind = c10::DeviceTypeName(device.type(), true);
    for (const weft_device_entry &entry : entries)
        if (entry.ordinal >= 0 && kind == entry.kind) {
            way.kind = kind;
            way.ordinal = device.index();
        }
    return way;
}

static void say_once(c10::DeviceType type, const std::string &why_not)
{
    static std::mutex lock;
    static auto &said = *new std::set<std::string>;
    const std::string text = c10::DeviceTypeName(type, true) +
                             " is known here: its tensors go through memory of the host" +
                             (why_not.empty() ? "" : " (" + why_not + ")");
    std::unique_lock<std::mutex> guard(lock);
    const bool is_new = said.insert(text).second;
    guard.unlock();
    if (is_new)
        TORCH_WARN("weft: no device ", text);
}

const Way &Library::way_of(c10::Device device)
{
    std::unique_lock<std::mutex> guard(ways_lock_);
    auto [known, is_new] = ways_.try_emplace(device.str());
    Way &way = known->second;
    if (is_new) {
        try {
            way = find_way(context_, device);
        } catch (...) {
            ways_.erase(known);
            throw;
        }
    }
    guard.unlock();
    if (is_new && way.kind.empty())
        say_once(device.type(), way.why_not);
    return way;
}

std::shared_ptr<const weft_op> Library::premul(weft_dtype dtype, const void *scalar)
{
    auto premuls = premuls_;
    std::lock_guard<std::mutex> guard(premuls->lock);
    std::pair<weft_dtype, std::string> key(
        dtype, std::string(static_cast<const char *>(scalar), weft_dtype_size(dtype)));
    auto found = premuls->made.find(key);
    if (found != premuls->made.end())
        if (auto known = found->second.lock())
            return known;
    for (auto at = premuls->made.begin(); at != premuls->made.end();)
        at = at->second.expired() ? premuls->made.erase(at) : std::next(at);
    weft_op_options options = WEFT_OP_OPTIONS_INIT;
    options.scalar = scalar;
    options.scalar_dtype = dtype;
    weft_op op;
    int status = weft_op_create(context_, &options, &op);
    if (status == WEFT_BUSY)
        return nullptr;
    check(status, "making a PREMUL_SUM");
    weft_context *context = context_;
    std::shared_ptr<const weft_op> made(new weft_op(op), [context](const weft_op *gone) {
        weft_op_free(context, *gone);
        delete gone;
    });
    premuls->made[key] = made;
    return made;
}

} // namespace torch_weft
