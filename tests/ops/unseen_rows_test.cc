// Rows that no query may see must not matter: with NaNs in them, attention has the bits that it has
// with zeros in them. On the CPU, and in cuda_ops_test on the emulated GPU.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "backends/cpu/backend.h"
#include "backends/cpu/threads/isa.h"
#include "formats/row_formats.h"
#include "ops/op.h"
#include "ops/operands.h"
#include "ops/registry.h"
#include "support/run_graph.h"
#ifdef LAMINA_TEST_ON_GPU
#include "backends/cuda/emulation/driver.h"
#endif

namespace lamina::testing {
namespace {

using Attrs = std::vector<std::pair<std::string_view, AttrValue>>;
using formats::RowNumbers;

// Calls `check` for every set of instructions of the CPU, or for the GPU.
void for_each_device(const std::function<void(const Backend&)>& check) {
#ifdef LAMINA_TEST_ON_GPU
  check(cuda::emulation::emulated_gpu());
#else
  for (const cpu::Isa set :
       {cpu::Isa::portable, cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::avx512_bf16}) {
    if (set > cpu::best_isa()) break;
    const cpu::ScopedIsa limit(set);
    SCOPED_TRACE(cpu::name(set));
    check(cpu::cpu_backend());
  }
#endif
}

struct Problem {
  const char* name;
  std::int64_t tokens, slots, heads, kv_heads, width;
  std::vector<double> starts;  // of the batch rows; empty: not over decode state
  std::int64_t window = 0, chunk = 0;
  bool ring = false;
  std::vector<double> segments = {};  // of one batch row, which has them twice; 0: padding

  // True if a query of row b may see slot s.
  bool is_seen(std::size_t b, std::int64_t s) const {
    if (starts.empty()) return segments[static_cast<std::size_t>(s)] != 0;
    const auto start = static_cast<std::int64_t>(starts[b]), last = start + tokens - 1;
    const std::int64_t position = ring ? last - ((last - s) % slots + slots) % slots : s;
    if (position < 0 || position > last) return false;
    if (window > 0 && position <= start - window) return false;
    return chunk == 0 || position / chunk >= start / chunk;
  }
};

// The rows of `x` in int8 or fp8.
Array rounded(const Array& x, RowNumbers numbers) {
  const formats::BlockFormat& format = *formats::row_format(numbers, x.type.dim(-1));
  Array out = zeros(x.type.stored_as(&format));
  std::vector<float> row(static_cast<std::size_t>(format.num_values));
  for (std::int64_t r = 0; r < x.type.num_elements() / format.num_values; ++r) {
    for (std::size_t i = 0; i < row.size(); ++i)
      row[i] = static_cast<float>(get(x, r * format.num_values + static_cast<std::int64_t>(i)));
    formats::narrow_row(format, row.data(), out.bytes.data() + r * format.num_bytes);
  }
  return out;
}

// Sets the rows [batch, slots, ...] that no query may see.
Array with_unseen(Array x, const Problem& p, double value) {
  const std::int64_t row = x.type.num_elements() / x.type.dim(0) / p.slots;
  for (std::int64_t b = 0; b < x.type.dim(0); ++b)
    for (std::int64_t s = 0; s < p.slots; ++s)
      for (std::int64_t i = 0; i < row && !p.is_seen(static_cast<std::size_t>(b), s); ++i)
        set(x, (b * p.slots + s) * row + i, value);
  return x;
}

Array attend(const Backend& backend, const Problem& p, DType dtype, const RowNumbers* numbers,
             double unseen) {
  namespace in = operand::attention;
  std::mt19937 random(4);
  const auto batch = static_cast<std::int64_t>(std::max<std::size_t>(p.starts.size(), 2));
  Graph graph;
  std::vector<Array> inputs;
  std::vector<Tensor> operands(ops::get("attention").inputs.size());
  const auto add = [&](int operand, Array x) {
    operands[static_cast<std::size_t>(operand)] = graph.add_input("in", x.type);
    inputs.push_back(std::move(x));
  };
  const Type keys{dtype, {batch, p.slots, p.kv_heads, p.width}, {}};
  add(in::kQ, random_array({dtype, {batch, p.tokens, p.heads, p.width}, {}}, random));
  for (const int operand : {int{in::kK}, int{in::kV}}) {
    Array x = with_unseen(random_array(keys, random), p, unseen);
    add(operand, numbers ? rounded(x, *numbers) : std::move(x));
  }
  if (p.starts.empty()) {
    std::vector<double> twice = p.segments;
    twice.insert(twice.end(), p.segments.begin(), p.segments.end());
    const Array segments = array({DType::i32, {batch, p.slots}, {}}, twice);
    add(in::kSegments, segments);
    add(in::kKeySegments, segments);
  } else {
    add(in::kStart, array({DType::i32, {batch}, {}}, p.starts));
  }
  Attrs attrs;
  if (p.window > 0) attrs.emplace_back("window", p.window);
  if (p.chunk > 0) attrs.emplace_back("chunk", p.chunk);
  if (p.ring) attrs.emplace_back("ring", std::int64_t{1});
  graph.add_output("y", graph.add_node(ops::get("attention"), operands, attrs)[0]);
  return run(graph, inputs, backend)[0];
}

void expect_no_difference(const Problem& p, DType dtype, const RowNumbers* numbers = nullptr) {
  SCOPED_TRACE(fmt::format("{} {}{}", p.name, name(dtype), numbers ? ", rounded" : ""));
  for_each_device([&](const Backend& backend) {
    const Array want = attend(backend, p, dtype, numbers, 0);
    const Array got = attend(backend, p, dtype, numbers, std::numeric_limits<double>::quiet_NaN());
    EXPECT_EQ(got.bytes, want.bytes);
  });
}

// The start of a window is inside of a step, a group and a tile of keys.
const Problem kOverState[] = {
    {"one token", 1, 90, 4, 2, 64, {61, 20}},
    {"one token and a window", 1, 300, 4, 2, 64, {271, 19}, 40},
    {"one token, splits and a window", 1, 900, 4, 1, 128, {870, 333}, 500},
    {"one token, wide heads and a window", 1, 90, 2, 1, 256, {80, 33}, 21},
    {"one token and chunks", 1, 90, 4, 2, 64, {61, 20}, 0, 50},
    {"one token and a ring", 1, 60, 4, 2, 64, {150, 20}, 41, 0, true},
    {"some tokens and a window", 5, 90, 4, 2, 32, {71, 3}, 20},
    {"many tokens and a window", 70, 200, 2, 1, 64, {110, 3}, 33},
    {"many tokens and a ring", 70, 140, 2, 1, 128, {150, 20}, 33, 0, true},
};

TEST(UnseenRowsOfAttention, AreNotReadOverStateOfTheGpuOrTheCpu) {
  for (const Problem& p : kOverState)
    for (const DType dtype : {DType::f32, DType::bf16}) expect_no_difference(p, dtype);
}

TEST(UnseenRowsOfAttention, AreNotReadFromRoundedStateOfTheGpuOrTheCpu) {
  for (const Problem& p : kOverState)
    for (const RowNumbers numbers : {RowNumbers::int8, RowNumbers::e4m3})
      for (const DType dtype : {DType::f32, DType::bf16})
        if (p.chunk == 0) expect_no_difference(p, dtype, &numbers);
}

TEST(UnseenRowsOfAttention, ArePaddingOfTheGpuOrTheCpu) {
  for (const std::int64_t width : {20, 64}) {
    Problem p{"padding", 90, 90, 2, 1, width, {}};
    for (int s = 0; s < 90; ++s) p.segments.push_back(s < 7 || s > 79 ? 0 : s < 40 ? 1 : 2);
    for (const DType dtype : {DType::f32, DType::bf16}) expect_no_difference(p, dtype);
  }
}

// Latents and rotary keys after the last token.
TEST(UnseenRowsOfAttention, AreLatentsAfterTheLastTokenOfTheGpuOrTheCpu) {
  namespace in = operand::latent_attention_step;
  for (const std::int64_t tokens : {1, 6}) {
    const Problem p{"latents", tokens, 40, 3, 1, 6, {17, 30}};
    for (const DType dtype : {DType::f32, DType::bf16})
      for_each_device([&](const Backend& backend) {
        const auto compute = [&](double unseen) {
          std::mt19937 random(4);
          Graph graph;
          std::vector<Array> inputs = {
              random_array({dtype, {2, tokens, 3, 6}, {}}, random),
              with_unseen(random_array({dtype, {2, 40, 16}, {}}, random), p, unseen),
              with_unseen(random_array({dtype, {2, 40, 2}, {}}, random), p, unseen),
              random_array({dtype, {3 * (4 + 5), 16}, {}}, random),
              array({DType::i32, {2}, {}}, p.starts)};
          std::vector<Tensor> operands(ops::get("latent_attention_step").inputs.size());
          for (std::size_t i = 0; i < inputs.size(); ++i)
            operands[i == 4 ? std::size_t{in::kStart} : i] = graph.add_input("in", inputs[i].type);
          const Attrs attrs = {{"nope_dim", std::int64_t{4}}};
          graph.add_output("y",
                           graph.add_node(ops::get("latent_attention_step"), operands, attrs)[0]);
          return run(graph, inputs, backend)[0].bytes;
        };
        EXPECT_EQ(compute(std::numeric_limits<double>::quiet_NaN()), compute(0));
      });
  }
}

}  // namespace
}  // namespace lamina::testing
