#include "bench/random_state.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "bench/repeated_write.h"
#include "bench/some_tokens.h"
#include "core/error.h"
#include "core/split_mix.h"
#include "formats/row_formats.h"
#include "weights/weights.h"

namespace lamina::bench {
namespace {

constexpr std::int64_t kRows = 251;  // different ones; prime, so that heads and slots differ

float uniform(std::int64_t i) {
  const std::uint64_t bits = split_mix(0, static_cast<std::uint64_t>(i));
  return static_cast<float>(bits >> 40) / static_cast<float>(1 << 23) - 1.f;
}

// Returns rows of the last dim of `type`, one after the other.
std::vector<std::byte> random_rows(const Type& type, std::int64_t vocab, std::int64_t rows) {
  const std::int64_t width = type.dim(-1);
  const auto row_bytes = static_cast<std::size_t>(type.storage ? type.storage->bytes_of(width)
                                                               : width * size_bytes(type.dtype));
  std::vector<std::byte> out(static_cast<std::size_t>(rows) * row_bytes);
  if (type.dtype == DType::i32) {
    const std::vector<std::int32_t> ids = some_tokens(rows * width, vocab);
    std::memcpy(out.data(), ids.data(), out.size());
    return out;
  }
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * width; ++i) values.push_back(uniform(i));
  if (!type.storage) {
    weights::store(values, type.dtype, 0, out.data());
    return out;
  }
  LAMINA_ASSERT(formats::row_numbers(*type.storage) && type.storage->num_values == width);
  for (std::int64_t row = 0; row < rows; ++row)
    formats::narrow_row(*type.storage, values.data() + row * width,
                        out.data() + static_cast<std::size_t>(row) * row_bytes);
  return out;
}

}  // namespace

void write_random(Queue& queue, const decoder::StateTensor& state, std::int64_t vocab,
                  const TensorRef& tensor, const device::Device& device) {
  if (state.bytes() == 0) return;
  const std::int64_t rows = state.type.num_elements() / state.type.dim(-1);
  const std::vector<std::byte> some = random_rows(state.type, vocab, std::min(rows, kRows));
  const auto period = static_cast<std::int64_t>(some.size());
  write_repeated(queue, tensor, [&](std::span<std::byte> out) {
    const auto bytes = static_cast<std::int64_t>(out.size());
    device.parallel_ranges(
        (bytes + period - 1) / period, 16, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i)
            std::memcpy(out.data() + i * period, some.data(),
                        static_cast<std::size_t>(std::min(period, bytes - i * period)));
        });
  });
}

}  // namespace lamina::bench
