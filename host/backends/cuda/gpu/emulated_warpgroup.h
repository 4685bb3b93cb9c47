// The words of gpu/warpgroup.h on the emulated GPU. A product is computed when its last thread
// comes to it; until the wait its registers cannot be accessed, and its operands not be written.
#pragma once

#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda::gpu {

namespace detail {

// The state of registers that products read or write.
class AsyncRegisters {
 public:
  void access() {
    check_done();
    fence_ = this_thread->product_fences;
  }
  // By a product.
  void use() {
    if (fence_ == this_thread->product_fences) fault_unfenced();
    group_ = this_thread->product_group;
  }
  void check_done() const {
    if (group_ > this_thread->products_done) fault_under_way();
  }

 private:
  [[noreturn, gnu::cold]] static void fault_unfenced();
  [[noreturn, gnu::cold]] static void fault_under_way();

  int group_ = 0;                            // of the last product
  int fence_ = this_thread->product_fences;  // the last one before the last access
};

// The operands of one thread.
struct WarpgroupProduct {
  float (*sums)[4];
  int columns;
  const std::uint32_t* rows;  // null: `a` describes them
  std::uint64_t a, b;
  bool a_along_k, b_along_k;
  static void run(void* const* lanes);
};

std::uint32_t shared_address(const void* at);
void fence_async();
void wait_until_products(int groups);

}  // namespace detail

template <int kColumns>
class Accumulator {
 public:
  using Group = float[4];
  Group& operator[](int n) {
    state_.access();
    return values_[n];
  }
  void clear() {
    state_.access();
    for (Group& group : values_)
      for (float& value : group) value = 0;
  }

  // Only for the functions below.
  Group* use() {
    state_.use();
    return values_;
  }
  void check_done() const { state_.check_done(); }

 private:
  Group values_[kColumns / 8];
  detail::AsyncRegisters state_;
};

class RowFragment {
 public:
  using Registers = std::uint32_t[4];
  Registers& registers() {
    state_.access();
    return values_;
  }

  // Only for the functions below.
  const std::uint32_t* use() {
    state_.use();
    return values_;
  }
  void check_done() const { state_.check_done(); }

 private:
  Registers values_;
  detail::AsyncRegisters state_;
};

inline Shared<bfloat16> swizzled_shared(int first_byte = 0) {
  const Shared<bfloat16> out = dynamic_shared<bfloat16>(first_byte);
  detail::check_aligned("shared", out.at(0, 0), kSwizzledPieceBytes);
  return out;
}
inline std::uint32_t shared_address(const Shared<bfloat16>& x) {
  return detail::shared_address(x.at(0, 0));
}

inline void fence_async() { detail::fence_async(); }
template <typename... Registers>
void fence_products(Registers&...) {
  ++this_thread->product_fences;
}
inline void commit_products() { ++this_thread->product_group; }
template <int N, typename... Registers>
void wait_products(Registers&... registers) {
  detail::wait_until_products(N);
  (registers.check_done(), ...);
}

template <int kColumns, bool kAlongA, bool kAlongB>
void warpgroup_multiply(Accumulator<kColumns>& d, MatrixDescriptor<kAlongA> a,
                        MatrixDescriptor<kAlongB> b, SourceLine where = SourceLine::current()) {
  static_assert(kColumns == 64 || kColumns == 128);
  detail::WarpgroupProduct mine{d.use(), kColumns, nullptr, a.bits, b.bits, kAlongA, kAlongB};
  in_warpgroup(&mine, detail::WarpgroupProduct::run, where);
}
template <int kColumns, bool kAlongB>
void warpgroup_multiply(Accumulator<kColumns>& d, RowFragment& rows, MatrixDescriptor<kAlongB> b,
                        SourceLine where = SourceLine::current()) {
  static_assert(kColumns == 64 || kColumns == 128);
  detail::WarpgroupProduct mine{d.use(), kColumns, rows.use(), 0, b.bits, true, kAlongB};
  in_warpgroup(&mine, detail::WarpgroupProduct::run, where);
}

}  // namespace lamina::cuda::gpu
