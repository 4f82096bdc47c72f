// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/store.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <c10/util/Exception.h>
#include <c10/util/error.h>

namespace torch_weft
{

// All ranks ask one store.
static constexpr unsigned LOOKS_PER_REFUSAL = 6;
static constexpr std::chrono::milliseconds SHORTEST_PAUSE{1};

StoreAdapter::StoreAdapter(c10::intrusive_ptr<c10d::Store> store, int rank)
    : store_(std::move(store)), rank_(rank),
      name_("torch" + std::to_string(store_->add("weft/made/" + std::to_string(rank), 1))), callbacks_{this,
                                                                                                       put,
                                                                                                       get}
{
}

// By looks, ever farther apart, up to all that the caller waits at once. The store's own wait() has c10d log a warning each time that it
// ends without the key, and weft's waits are short: between them it sees signals, and whether another rank has given up.
bool StoreAdapter::await(const std::string &key, std::chrono::milliseconds timeout)
{
    using std::chrono::duration_cast;
    using std::chrono::milliseconds;
    const auto begun = std::chrono::steady_clock::now();
    if (key != awaited_) {
        awaited_ = key;
        awaited_since_ = begun;
    }
    while (!store_->check({key})) {
        const auto now = std::chrono::steady_clock::now();
        const auto left = timeout - duration_cast<milliseconds>(now - begun);
        const auto pause = std::max(duration_cast<milliseconds>(now - awaited_since_) / 8, SHORTEST_PAUSE);
        if (left.count() > 0)
            std::this_thread::sleep_for(std::min(left, pause));
        if (left <= pause)
            return false; // whoever asks again looks first
    }
    return true;
}

std::vector<uint8_t> StoreAdapter::secret(std::chrono::milliseconds timeout, void (*look)())
{
    static constexpr size_t BYTES = 32;
    const std::string key = "weft/secret/" + name_;
    if (std::getenv("WEFT_SECRET_FILE") || std::getenv("WEFT_SECRET_FD"))
        return {};
    if (rank_ == 0) {
        std::vector<uint8_t> made(BYTES);
        TORCH_CHECK(getentropy(made.data(), BYTES) == 0,
                    "weft: no random bytes for a secret: ", c10::utils::str_error(errno));
        store_->set(key, made);
        return made;
    }
    const auto until = std::chrono::steady_clock::now() + timeout;
    for (;;) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
        if (await(key, std::clamp(left, std::chrono::milliseconds(0), BETWEEN_LOOKS)))
            break;
        if (left.count() <= 0)
            TORCH_CHECK_WITH(DistStoreError, false, "rank 0 has not come to make the group within ",
                             timeout.count(), " ms");
        look();
        const std::string reason = refusal();
        if (!reason.empty())
            raise(WEFT_PEER_FAILED, "making the group", reason);
    }
    return store_->get(key);
}

// The store may be what has failed: then the others see that by themselves.
void StoreAdapter::refuse(const std::string &reason)
{
    try {
        store_->set("weft/refused/" + name_, std::vector<uint8_t>(reason.begin(), reason.end()));
    } catch (const std::exception &) {
    }
}

std::string StoreAdapter::refusal()
{
    const std::string key = "weft/refused/" + name_;
    if (++looks_ % LOOKS_PER_REFUSAL != 0)
        return "";
    try {
        if (!store_->check({key}))
            return "";
        const std::vector<uint8_t> reason = store_->get(key);
        return std::string(reason.begin(), reason.end());
    } catch (const std::exception &) {
        return "";
    }
}

int StoreAdapter::put(void *arg, const char *key, const void *value, size_t size)
{
    auto *self = static_cast<StoreAdapter *>(arg);
    const auto *bytes = static_cast<const uint8_t *>(value);
    try {
        self->store_->set(key, std::vector<uint8_t>(bytes, bytes + size));
        return WEFT_OK;
    } catch (const std::exception &error) {
        self->failure_ = error.what();
        return WEFT_SYSTEM;
    }
}

int StoreAdapter::get(void *arg, const char *key, void *value, size_t capacity, size_t *size,
                      int64_t timeout_ms)
{
    auto *self = static_cast<StoreAdapter *>(arg);
    try {
        if (!self->await(key, std::chrono::milliseconds(std::max<int64_t>(timeout_ms, 1))))
            return WEFT_TIMEOUT;
        const std::vector<uint8_t> bytes = self->store_->get(key);
        if (bytes.size() > capacity) {
            self->failure_ = "the value of " + std::string(key) + " is longer than weft's are";
            return WEFT_PROTOCOL;
        }
        std::memcpy(value, bytes.data(), bytes.size());
        *size = bytes.size();
        return WEFT_OK;
    } catch (const std::exception &error) {
        self->failure_ = error.what();
        return WEFT_SYSTEM;
    }
}

} // namespace torch_weft
