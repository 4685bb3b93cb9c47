// The arguments of a custom op's kernel: tensors in memory, row by row, and the host's threads.
#pragma once

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "lamina/ext/custom_ops.h"
#include "lamina/sdk/error.h"
#include "lamina/sdk/op_rows.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// Attributes of a custom op by name, in a lowering and in kernels.
class OpAttrs {
 public:
  OpAttrs(std::string_view row, lamina_span_t values) : row_(row), values_(values) {}

  std::int64_t integer(std::string_view name) const { return find(name, LAMINA_KIND_INT).v.i; }
  bool flag(std::string_view name) const { return integer(name) != 0; }
  double number(std::string_view name) const { return find(name, LAMINA_KIND_FLOAT).v.f; }
  std::string_view text(std::string_view name) const {
    return to_view(find(name, LAMINA_KIND_STRING).v.s);
  }
  std::span<const std::int64_t> integers(std::string_view name) const {
    const lamina_span_t list = find(name, LAMINA_KIND_INT_LIST).v.list;
    return {static_cast<const std::int64_t*>(list.ptr), list.count};
  }
  std::span<const double> numbers(std::string_view name) const {
    const lamina_span_t list = find(name, LAMINA_KIND_FLOAT_LIST).v.list;
    return {static_cast<const double*>(list.ptr), list.count};
  }

 private:
  const lamina_value_t& find(std::string_view name, std::uint32_t kind) const {
    const AttrRow row = find_attr(row_, name);
    if (row.key == 0 || row.key > values_.count || row.kind != kind)
      raise(Error(LAMINA_ERROR_INTERNAL,
                  "the op's row has no attribute '" + std::string(name) + "' of that kind"));
    return static_cast<const lamina_value_t*>(values_.ptr)[row.key - 1];
  }

  std::string_view row_;
  lamina_span_t values_;
};

// A tensor in memory as rows of its last dim. load() and store() convert between rows of any
// floating-point type and `float`.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(const lamina_buffer_t* of) : of_(of) {}

  // True if the tensor is present.
  explicit operator bool() const { return of_ != nullptr && of_->dtype != 0; }
  std::uint32_t dtype() const { return of_->dtype; }
  int num_dims() const { return static_cast<int>(of_->ndim); }
  // Negative i counts from the last dim.
  std::int64_t dim(int i) const { return of_->dims[i < 0 ? i + num_dims() : i]; }
  std::int64_t width() const { return num_dims() == 0 ? 1 : dim(-1); }
  std::int64_t num_rows() const {
    std::int64_t out = 1;
    for (int i = 0; i + 1 < num_dims(); ++i) out *= dim(i);
    return out;
  }
  // REQUIRES: T is the C type of dtype().
  template <class T>
  T* data() const {
    return static_cast<T*>(of_->data);
  }

  void load(std::int64_t row, float* to) const { load(row, 0, width(), to); }
  void store(std::int64_t row, const float* from) const { store(row, 0, width(), from); }
  // Reads and writes elements [first, first + count) of a row.
  void load(std::int64_t row, std::int64_t first, std::int64_t count, float* to) const {
    const std::int64_t at = row * width() + first;
    switch (dtype()) {
      case LAMINA_DTYPE_F32:
        std::memcpy(to, data<float>() + at, static_cast<std::size_t>(count) * sizeof(float));
        return;
      case LAMINA_DTYPE_BF16:
        for (std::int64_t i = 0; i < count; ++i)
          to[i] =
              std::bit_cast<float>(static_cast<std::uint32_t>(data<std::uint16_t>()[at + i]) << 16);
        return;
      default:
        refuse();
    }
  }
  void store(std::int64_t row, std::int64_t first, std::int64_t count, const float* from) const {
    const std::int64_t at = row * width() + first;
    switch (dtype()) {
      case LAMINA_DTYPE_F32:
        std::memcpy(data<float>() + at, from, static_cast<std::size_t>(count) * sizeof(float));
        return;
      case LAMINA_DTYPE_BF16:
        for (std::int64_t i = 0; i < count; ++i) data<std::uint16_t>()[at + i] = rounded(from[i]);
        return;
      default:
        refuse();
    }
  }

 private:
  // Rounds to the nearest, halves to even.
  static std::uint16_t rounded(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if (std::isnan(x)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
    return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  [[noreturn]] void refuse() const {
    raise(Error(LAMINA_ERROR_DTYPE, "rows of element type " + std::to_string(dtype()) +
                                        " cannot be converted; expected f32 or bf16"));
  }

  const lamina_buffer_t* of_ = nullptr;
};

// One run of a kernel. [the thread that called run()]
class KernelCall {
 public:
  KernelCall(std::string_view attr_row, const lamina_kernel_call_t* call)
      : attrs(attr_row, call->attrs), call_(call) {}

  const OpAttrs attrs;

  // Inputs and outputs by their places in the op's row.
  Buffer in(std::uint32_t i) const { return at(call_->inputs, i); }
  Buffer out(std::uint32_t i = 0) const { return at(call_->outputs, i); }
  // Backward only: gradients of output i (may be absent) and of input i (may be absent).
  Buffer d_out(std::uint32_t i = 0) const { return at(call_->output_gradients, i); }
  Buffer d_in(std::uint32_t i) const { return at(call_->input_gradients, i); }
  // Decode states; absent outside decoding.
  Buffer state_before(std::uint32_t i = 0) const { return at(call_->states_before, i); }
  Buffer state_after(std::uint32_t i = 0) const { return at(call_->states_after, i); }

  // True if the state is zeros before token t of row b: the document starts there.
  bool begins(std::int64_t b, std::int64_t t) const {
    if (call_->start) return t == 0 && Buffer(call_->start).data<std::int32_t>()[b] == 0;
    if (t == 0) return true;
    if (!call_->segments) return false;
    const Buffer segments(call_->segments);
    const std::int32_t* row = segments.data<std::int32_t>() + b * segments.dim(1);
    return row[t] != row[t - 1];
  }
  // The number of real tokens of row b; later tokens are padding and must not change a state.
  std::int64_t count(std::int64_t b, std::int64_t tokens) const {
    return call_->count ? Buffer(call_->count).data<std::int32_t>()[b] : tokens;
  }

  // The floats that the kernel's `workspace` function asked for; not zeroed.
  float* workspace() const { return static_cast<float*>(call_->workspace); }

  // Runs task(i) for each i below count, on the host's threads in any order. Each task must write
  // to separate memory; results must not depend on the number of threads. The first error of a task
  // is raised again here, after all have run.
  template <class Task>
  void parallel_for(std::int64_t count, const Task& task) const {
    struct Context {
      const Task& task;
      std::atomic<Error*> first{nullptr};
    } context{task};
    call_->api->parallel_for(
        call_, static_cast<std::uint64_t>(count),
        [](void* of, std::uint64_t i) {
          auto& shared = *static_cast<Context*>(of);
          contained([&] { shared.task(static_cast<std::int64_t>(i)); },
                    [&](lamina_status_t status, std::string_view text, const lamina_where_t*) {
                      auto* error = new Error(status, std::string(text));
                      Error* none = nullptr;
                      if (!shared.first.compare_exchange_strong(none, error)) delete error;
                    });
        },
        &context);
    if (Error* first = context.first) {
      Error error = std::move(*first);
      delete first;
      raise(std::move(error));
    }
  }

 private:
  static Buffer at(const lamina_span_t& list, std::uint32_t i) {
    return i < list.count ? Buffer(static_cast<const lamina_buffer_t*>(list.ptr) + i) : Buffer();
  }

  const lamina_kernel_call_t* call_;
};

}  // namespace lamina::sdk
#pragma GCC visibility pop
