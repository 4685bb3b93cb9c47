// The weight-streaming kernels in plain C++ with four lanes, which any compiler can vectorise.
#include "backends/cpu/gemm/gemv_kernel.h"

namespace lamina::cpu {
namespace {

template <typename T>
struct Plain {
  using Element = T;
  struct Sum {
    float lane[4];
  };
  static constexpr int kStep = 4;
  static constexpr int kSums = 1;
  static constexpr int kFarRows1 = 1, kFarRows2 = 1, kRows4 = 1;
  static Sum zero() { return {}; }
  static Sum add(Sum a, Sum b) {
    for (int i = 0; i < 4; ++i) a.lane[i] += b.lane[i];
    return a;
  }
  static Sum dot(Sum sum, const T* w, const T* x) { return dot_tail(sum, w, x, 4); }
  static Sum dot_tail(Sum sum, const T* w, const T* x, int count) {
    for (int i = 0; i < count; ++i) sum.lane[i] += widen(w[i]) * widen(x[i]);
    return sum;
  }
  static float reduce(Sum sum) { return (sum.lane[0] + sum.lane[2]) + (sum.lane[1] + sum.lane[3]); }
  static void reduce4(Sum a, Sum b, Sum c, Sum d, float* out) {
    out[0] = reduce(a);
    out[1] = reduce(b);
    out[2] = reduce(c);
    out[3] = reduce(d);
  }
};

}  // namespace

void gemv_rows_portable(const RowsArguments& a, std::int64_t begin, std::int64_t end) {
  a.bf16_in ? stream_rows<Plain<std::uint16_t>>(a, begin, end)
            : stream_rows<Plain<float>>(a, begin, end);
}

void gemv_columns_portable(const RowsArguments& a, std::int64_t begin, std::int64_t end) {
  const auto multiply_add = [](float x, float w, float sum) { return x * w + sum; };
  a.bf16_in ? stream_columns<std::uint16_t>(a, begin, end, multiply_add)
            : stream_columns<float>(a, begin, end, multiply_add);
}

}  // namespace lamina::cpu
