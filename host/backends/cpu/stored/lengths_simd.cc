// Squares of adapted weights, for one instruction set: the same operations in the same order as the
// op's lowering, so that the bits are equal.
#include "backends/cpu/stored/stored_rows.h"

#include "backends/cpu/simd/memory.h"

namespace lamina::cpu {
namespace {

template <typename T>
void squares(const void* w, const float* change, float scale, std::int64_t count, float* out) {
  const T* weights = static_cast<const T*>(w);
  for_lanes(count, [&](std::int64_t i, int n) {
    const Float whole = load_some(weights + i, n) + load_some(change + i, n) * splat(scale);
    store_some(out + i, whole * whole, n);
  });
}

constexpr LengthFunctions kFunctions = {squares<float>, squares<bfloat16>};

}  // namespace

constinit const LengthFunctions LengthFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
