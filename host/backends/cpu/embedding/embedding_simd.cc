// Adds up rows, for one instruction set.
#include "backends/cpu/embedding/embedding.h"
#include "backends/cpu/simd/memory.h"

namespace lamina::cpu {
namespace {

template <typename From>
void add_row(float* to, const void* from, std::int64_t n) {
  const From* x = static_cast<const From*>(from);
  for_lanes(n, [&](std::int64_t i, int count) {
    store_some(to + i, load_some(x + i, count) + load_some(to + i, count), count);
  });
}

constexpr EmbeddingFunctions kFunctions = {
    .add = {add_row<float>, add_row<bfloat16>},
};

}  // namespace

constinit const EmbeddingFunctions EmbeddingFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
