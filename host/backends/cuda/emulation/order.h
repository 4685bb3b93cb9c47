// The order in which threads and blocks of the emulated GPU run.
#pragma once

#include <cstdint>
#include <numeric>

#include "core/split_mix.h"

namespace lamina::cuda::emulation {

// Numbers that depend on the seed, the launch and the block.
class OrderDraws {
 public:
  explicit OrderDraws(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t next() { return split_mix(seed_, count_++); }

 private:
  std::uint64_t seed_, count_ = 0;
};

// One of the orders of [0, count) that visit it in equal steps.
class StepOrder {
 public:
  StepOrder(std::int64_t count, OrderDraws& draws) : count_(count) {
    if (count <= 1) return;
    at_ = static_cast<std::int64_t>(draws.next() % static_cast<std::uint64_t>(count));
    do {
      step_ = 1 + static_cast<std::int64_t>(draws.next() % static_cast<std::uint64_t>(count - 1));
    } while (std::gcd(step_, count) != 1);
  }
  std::int64_t next() {
    const std::int64_t out = at_;
    at_ = (at_ + step_) % count_;
    return out;
  }

 private:
  std::int64_t count_, at_ = 0, step_ = 1;
};

}  // namespace lamina::cuda::emulation
