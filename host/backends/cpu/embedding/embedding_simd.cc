// Rows copied or added for one instruction set.
#include "backends/cpu/embedding/embedding_simd.h"
#include "backends/cpu/simd/memory.h"

namespace lamina::cpu {
namespace {

template <typename From, typename To>
void copy_row(void* to, const void* from, std::int64_t n, float scale) {
  To* y = static_cast<To*>(to);
  const From* x = static_cast<const From*>(from);
  for_lanes(n, [&](std::int64_t i, int count) {
    store_some(y + i, load_some(x + i, count) * splat(scale), count);
  });
}

template <typename From>
void add_row(float* to, const void* from, std::int64_t n, float scale) {
  const From* x = static_cast<const From*>(from);
  for_lanes(n, [&](std::int64_t i, int count) {
    store_some(to + i, fma(load_some(x + i, count), splat(scale), load_some(to + i, count)), count);
  });
}

constexpr EmbeddingFunctions kFunctions = {
    .copy = {{copy_row<float, float>, copy_row<float, bfloat16>},
             {copy_row<bfloat16, float>, copy_row<bfloat16, bfloat16>}},
    .add = {add_row<float>, add_row<bfloat16>},
};

}  // namespace

constinit const EmbeddingFunctions EmbeddingFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
