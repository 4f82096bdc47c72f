// SPDX-License-Identifier: Apache-2.0
// The group's c10d::Store as what ranks find each other by: weft's key-value callbacks.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "bindings/torch/csrc/library.hpp"

namespace torch_weft
{

// For one weft_comm_create(). Python's stores take the GIL themselves: the caller must not hold it.
class StoreAdapter
{
  public:
    // A store may outlive a group, and the next one of its name find it: each of a rank's has a number, the same on all ranks.
    StoreAdapter(c10::intrusive_ptr<c10d::Store> store, int rank);
    const std::string &name() const
    {
        return name_;
    }
    const weft_store *callbacks() const
    {
        return &callbacks_;
    }
    // What only this group's ranks know, if the store is theirs alone: made by rank 0. Throws when rank 0 has not come in time, and what look() throws. Empty
    // where the environment names one, which is weft's to find.
    std::vector<uint8_t> secret(std::chrono::milliseconds timeout, void (*look)());
    // This rank cannot make the group: the others need not wait for it.
    void refuse(const std::string &reason);
    // What another rank has said so, "" nobody has. Asks the store now and then only.
    std::string refusal();
    // What the store said when it failed, "" when it has not.
    const std::string &failure() const
    {
        return failure_;
    }

  private:
    // Whether the key comes in time.
    bool await(const std::string &key, std::chrono::milliseconds timeout);
    std::string awaited_; // since awaited_since_
    std::chrono::steady_clock::time_point awaited_since_;
    unsigned looks_ = 0;
    static int put(void *arg, const char *key, const void *value, size_t size);
    static int get(void *arg, const char *key, void *value, size_t capacity, size_t *size,
                   int64_t timeout_ms);

    c10::intrusive_ptr<c10d::Store> store_;
    const int rank_;
    const std::string name_;
    weft_store callbacks_;
    std::string failure_;
};

} // namespace torch_weft
