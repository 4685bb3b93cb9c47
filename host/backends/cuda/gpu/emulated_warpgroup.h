// The functions and types of gpu/warpgroup.h on the emulated GPU. A product is computed when its
// last thread comes to it; until the wait its registers cannot be accessed, and its operands not be
// written. Fences and waits must name the registers, because compilers move accesses to other ones
// over them.
#pragma once

#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda::gpu {

namespace detail {

// The state of registers that products read or write.
class AsyncRegisters {
 public:
  void access() {
    check_done();
    if (group_ > named_) fault_not_named();
    fenced_ = false;
  }
  // Named in a fence; a product may be under way.
  void fence() { fenced_ = true; }
  // By a product.
  void use() {
    if (!fenced_) fault_unfenced();
    group_ = this_thread->product_group;
  }
  // Named in a wait.
  void finish() {
    check_done();
    named_ = this_thread->products_done;
  }

 private:
  void check_done() const {
    if (group_ > this_thread->products_done) fault_under_way();
  }
  [[noreturn, gnu::cold]] static void fault_unfenced();
  [[noreturn, gnu::cold]] static void fault_under_way();
  [[noreturn, gnu::cold]] static void fault_not_named();

  int group_ = 0;        // of the last product
  int named_ = 0;        // the last group that had ended at the last wait that names the registers
  bool fenced_ = false;  // no access since the last fence that names them
};

// The operands of one thread.
struct WarpgroupProduct {
  float (*sums)[4];
  int columns;
  const std::uint32_t* rows;  // null: `a` describes them
  std::uint64_t a, b;
  bool a_along_k, b_along_k;
  int group = this_thread->product_group;
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
  detail::AsyncRegisters& state() { return state_; }

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
  detail::AsyncRegisters& state() { return state_; }

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

namespace detail {

template <typename R, typename Fn>
void for_each_state(R& registers, Fn fn) {
  fn(registers.state());
}
template <typename R, int N, typename Fn>
void for_each_state(R (&registers)[N], Fn fn) {
  for (R& one : registers) fn(one.state());
}

}  // namespace detail

inline void fence_async() { detail::fence_async(); }
template <typename... Registers>
void fence_products(Registers&... registers) {
  (detail::for_each_state(registers, [](detail::AsyncRegisters& state) { state.fence(); }), ...);
}
inline void commit_products() { ++this_thread->product_group; }
template <int N, typename... Registers>
void wait_products(Registers&... registers) {
  detail::wait_until_products(N);
  (detail::for_each_state(registers, [](detail::AsyncRegisters& state) { state.finish(); }), ...);
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
