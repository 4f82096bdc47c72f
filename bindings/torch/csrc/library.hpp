// SPDX-License-Identifier: Apache-2.0
// What this backend uses of weft, with C++'s ownership: contexts, and failures as exceptions.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <weft/weft.h>

#include "bindings/torch/csrc/keeper.hpp"
#include "bindings/torch/csrc/xpu.hpp"

namespace torch_weft
{

// How late Python sees a signal while a call of its waits here.
static constexpr std::chrono::milliseconds BETWEEN_LOOKS{50};

// weft_strerror()'s words, and PyTorch's where it has some.
std::string words_of(int status);

// Throws what PyTorch knows for the failure of a call, c10::DistBackendError, with weft's text. what: "allreduce".
[[noreturn]] void raise(int status, const std::string &what, const std::string &detail);

// Throws when status is not WEFT_OK; the detail is that of the calling thread's last call.
void check(int status, const char *what);

// A duration of PyTorch's as weft takes it: at least 1 ms, since 0 has a meaning of its own.
int64_t milliseconds_of(std::chrono::milliseconds duration);

// A context. All groups of a process that ask for the same settings share one, and with it links, registrations and threads.
// It closes when the last group, tensor or work that uses it has gone.
class Library
{
  public:
    // settings: as struct weft_context_options has them; the environment says the rest.
    static std::shared_ptr<Library> get(const std::string &settings);
    // Waits until the keepers of all have reported what has ended.
    static void settle_all(std::chrono::milliseconds patience);
    ~Library();
    Library(const Library &) = delete;
    Library &operator=(const Library &) = delete;

    weft_context *context() const
    {
        return context_;
    }
    Keeper &keeper()
    {
        return keeper_;
    }

    // Whether weft reads and writes such device memory, not the CPU's, and by which name. Tensors of others go through the host's, by
    // PyTorch's copies, which is said once.
    const Way &way_of(c10::Device device);

    // An operation that multiplies this rank's input by the scalar and adds up. Equal ones are shared, and it goes with its last user.
    // They are few: nullptr when all are in use.
    std::shared_ptr<const weft_op> premul(weft_dtype dtype, const void *scalar);

  private:
    explicit Library(weft_context *context) : context_(context)
    {
    }
    struct Premuls;

    weft_context *context_;
    Keeper keeper_;
    std::shared_ptr<Premuls> premuls_;
    std::mutex ways_lock_;
    std::map<std::string, Way> ways_; // by PyTorch's name of the device; they stay where they are
};

} // namespace torch_weft
