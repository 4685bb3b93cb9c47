#include "jinja/values/budget.h"

#include "jinja/values/value.h"

namespace lamina::jinja {

thread_local Budget* Budget::current_ = nullptr;

void Budget::take(std::size_t num_bytes) {
  if (num_bytes > limits_.max_memory - live_bytes_)
    fail("needs more than {} MiB for its values; a template may take no more",
         limits_.max_memory >> 20);
  live_bytes_ += num_bytes;
}

void Budget::exceed() const {
  fail("takes more than {} steps; a template may take no more", limits_.max_steps);
}

}  // namespace lamina::jinja
