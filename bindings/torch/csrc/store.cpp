// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/csrc/store.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include <unistd.h>

#include <c10/util/Exception.h>
#include <c10/util/error.h>

namespace torch_weft
{

StoreAdapter::StoreAdapter(c10::intrusive_ptr<c10d::Store> store, int rank)
    : store_(std::move(store)), rank_(rank),
      name_("torch" + std::to_string(store_->add("weft/made/" + std::to_string(rank), 1))), callbacks_{this,
                                                                                                       put,
                                                                                                       get}
{
}

std::vector<uint8_t> StoreAdapter::secret(std::chrono::milliseconds timeout)
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
    store_->wait({key}, timeout);
    return store_->get(key);
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

// A store's wait() reports that time is up as it does other failures, but what it throws says so; a key that is there a moment later is
// asked for again by whoever calls.
int StoreAdapter::get(void *arg, const char *key, void *value, size_t capacity, size_t *size,
                      int64_t timeout_ms)
{
    auto *self = static_cast<StoreAdapter *>(arg);
    try {
        if (!self->store_->check({key})) {
            try {
                self->store_->wait({key}, std::chrono::milliseconds(std::max<int64_t>(timeout_ms, 1)));
            } catch (const std::exception &) {
                if (!self->store_->check({key})) // throws where the store itself is gone
                    return WEFT_TIMEOUT;
            }
        }
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
