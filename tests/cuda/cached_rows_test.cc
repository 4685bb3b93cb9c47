// Keys and values in rows of int8 and fp8, on the emulated GPU: writes have the bits of the
// definition in formats/row_formats.h, and attention agrees with attention in double.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "cuda/gpu.h"
#include "formats/row_formats.h"
#include "ops/op.h"
#include "ops/operands.h"
#include "ops/registry.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

namespace in = operand::attention;
using formats::RowNumbers;

constexpr RowNumbers kNumbers[] = {RowNumbers::int8, RowNumbers::e4m3};

Type stored_in(const Type& type, RowNumbers numbers) {
  return type.stored_as(formats::row_format(numbers, type.dim(-1)));
}

// The rows of `x` by the definition.
Array rounded(const Array& x, RowNumbers numbers) {
  Array out = zeros(stored_in(x.type, numbers));
  const formats::BlockFormat& format = *out.type.storage;
  std::vector<float> row(static_cast<std::size_t>(format.num_values));
  for (std::int64_t r = 0; r < x.type.num_elements() / format.num_values; ++r) {
    for (std::size_t i = 0; i < row.size(); ++i)
      row[i] = static_cast<float>(get(x, r * format.num_values + static_cast<std::int64_t>(i)));
    formats::narrow_row(format, row.data(), out.bytes.data() + r * format.num_bytes);
  }
  return out;
}

// The values of stored rows, in double.
Array values_of(const Array& rows) {
  const formats::BlockFormat& format = *rows.type.storage;
  Array out = zeros(rows.type.stored_as(nullptr).with(DType::f64));
  std::vector<float> row(static_cast<std::size_t>(format.num_values));
  for (std::int64_t r = 0; r < out.type.num_elements() / format.num_values; ++r) {
    format.widen(rows.bytes.data() + r * format.num_bytes, row.data());
    for (std::size_t i = 0; i < row.size(); ++i)
      set(out, r * format.num_values + static_cast<std::int64_t>(i), row[i]);
  }
  return out;
}

// Rows of all sizes, of zeros, of subnormal and of the largest numbers, of halves between two
// codes, and with infinities and NaNs.
Array difficult_rows(const Type& type, std::mt19937& random) {
  Array out = random_array(type, random);
  const std::int64_t width = type.dim(-1);
  const float infinity = std::numeric_limits<float>::infinity();
  for (std::int64_t r = 0; r < type.num_elements() / width; ++r) {
    const auto change = [&](auto function) {
      for (std::int64_t i = 0; i < width; ++i)
        set(out, r * width + i, function(get(out, r * width + i), i));
    };
    switch (r % 9) {
      case 1:
        change([](double, std::int64_t) { return 0.; });
        break;
      case 2:
        change([](double x, std::int64_t) { return x * 0x1p-130; });
        break;
      case 3:
        change([](double x, std::int64_t) { return x * 0x1p-119; });
        break;
      case 4:
        change([](double x, std::int64_t) { return x < 0 ? -3.3895e38 : 3.3895e38; });
        break;
      case 5:
        change([](double, std::int64_t i) { return i == 0 ? 127 : double(i % 64) + 0.5; });
        break;
      case 6:
        change([=](double x, std::int64_t i) { return i == 2 % width ? infinity : x; });
        break;
      case 7:
        change([](double x, std::int64_t i) { return i == 0 ? std::nan("") : x; });
        break;
      default:
        break;
    }
  }
  return out;
}

TEST(CachedRowsOfTheGpu, AreRoundedToTheBitsOfTheDefinition) {
  std::mt19937 random(1);
  for (const RowNumbers numbers : kNumbers)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const std::int64_t width : {1, 6, 8, 64, 128, 130, 512}) {
        SCOPED_TRACE(fmt::format("{} {}", name(dtype), width));
        const Array rows = difficult_rows({dtype, {2, 5, 2, width}, {}}, random);
        const Array want = rounded(rows, numbers);
        Graph g;
        const Tensor cache = g.add_input("cache", want.type), update = g.add_input("u", rows.type);
        const Tensor start = g.add_input("start", {DType::i32, {2}, {}});
        g.add_output("cache", ops::cache_write(cache, update, start), 0);
        // The last token of the second row is outside of the cache.
        const std::vector<Array> got =
            run(g, {zeros(want.type), rows, array({DType::i32, {2}, {}}, {0, 1})}, test_gpu());
        const auto half = static_cast<std::ptrdiff_t>(want.bytes.size() / 2), token = half / 5;
        const auto equal = [&](std::ptrdiff_t at, std::ptrdiff_t from, std::ptrdiff_t count) {
          return std::equal(got[0].bytes.begin() + at, got[0].bytes.begin() + at + count,
                            want.bytes.begin() + from);
        };
        EXPECT_TRUE(equal(0, 0, half));
        EXPECT_TRUE(equal(half + token, half, half - token));
      }
}

TEST(CachedRowsOfTheGpu, AreWidenedToTheBitsOfTheDefinition) {
  std::mt19937 random(2);
  for (const RowNumbers numbers : kNumbers)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const std::int64_t width : {1, 6, 8, 128, 130, 512}) {
        const Array rows = rounded(difficult_rows({dtype, {1, 9, 2, width}, {}}, random), numbers);
        Graph g;
        g.add_output("y", ops::widen_stored(g.add_input("x", rows.type)));
        const Array got = run(g, {rows}, test_gpu())[0], values = values_of(rows);
        for (std::int64_t i = 0; i < values.type.num_elements(); ++i) {
          Array want = zeros({dtype, {1}, {}});
          set(want, 0, get(values, i));
          if (std::isnan(get(want, 0))) continue;
          ASSERT_EQ(get(got, i), get(want, 0)) << width << " " << i;
        }
      }
}

struct Problem {
  const char* name;
  std::int64_t tokens, slots, heads, kv_heads, width, value_width;
  std::vector<double> starts;
  std::vector<std::pair<const char*, std::int64_t>> attrs;
  bool sinks = false;
};

struct Operands {
  Array q, k, v, start, sinks;
};

Operands random_operands(const Problem& p, DType dtype, RowNumbers numbers) {
  std::mt19937 random(7);
  const auto batch = static_cast<std::int64_t>(p.starts.size());
  const auto rows = [&](std::int64_t tokens, std::int64_t heads, std::int64_t width) {
    return random_array({dtype, {batch, tokens, heads, width}, {}}, random);
  };
  return {rows(p.tokens, p.heads, p.width), rounded(rows(p.slots, p.kv_heads, p.width), numbers),
          rounded(rows(p.slots, p.kv_heads, p.value_width), numbers),
          array({DType::i32, {batch}, {}}, p.starts), random_array({dtype, {p.heads}, {}}, random)};
}

Array attend(const Problem& p, const Operands& x, const Backend& backend) {
  Graph g;
  std::vector<Tensor> operands(ops::get("attention").inputs.size());
  std::vector<Array> inputs;
  const auto add = [&](int place, const Array& array) {
    operands[static_cast<std::size_t>(place)] = g.add_input("in", array.type);
    inputs.push_back(array);
  };
  add(in::kQ, x.q);
  add(in::kK, x.k);
  add(in::kV, x.v);
  if (p.sinks) add(in::kSinks, x.sinks);
  add(in::kStart, x.start);
  std::vector<std::pair<std::string_view, AttrValue>> attrs;
  for (const auto& [key, value] : p.attrs) attrs.emplace_back(key, value);
  g.add_output("y", g.add_node(ops::get("attention"), operands, attrs)[0]);
  return run(g, inputs, backend)[0];
}

// Attention in double to the values that are stored.
Array attend_in_double(const Problem& p, const Operands& x) {
  return attend(p,
                {converted(x.q, DType::f64), values_of(x.k), values_of(x.v), x.start,
                 converted(x.sinks, DType::f64)},
                cpu::cpu_backend());
}

// Several splits, heads that tensor cores take and others, windows, rings, prompts.
const Problem kProblems[] = {
    {"64, one split", 1, 40, 4, 2, 64, 64, {39, 0}, {}},
    {"128, splits", 1, 700, 4, 2, 128, 128, {699, 20}, {}},
    {"128, eight heads and sinks", 1, 600, 8, 1, 128, 128, {520, 255}, {}, true},
    {"256", 1, 600, 2, 1, 256, 256, {256, 599}, {}},
    {"64, three heads and a window", 1, 300, 6, 2, 64, 64, {270, 15}, {{"window", 100}}},
    {"128, a ring", 1, 600, 2, 1, 128, 128, {2000, 300}, {{"ring", 1}, {"window", 590}}},
    {"sixteen heads", 1, 90, 16, 1, 64, 64, {80, 3}, {}},
    {"other widths", 1, 50, 4, 2, 20, 6, {49, 3}, {}},
    {"a prompt", 40, 64, 4, 2, 64, 64, {0, 24}, {}},
    {"a prompt to a ring", 9, 64, 4, 2, 128, 128, {100, 3}, {{"ring", 1}, {"window", 50}}},
    {"many rows", 90, 120, 4, 1, 128, 128, {0, 30}, {}},
};

TEST(AttentionToCachedRowsOfTheGpu, IsAttentionToTheirValues) {
  for (const Problem& p : kProblems)
    for (const RowNumbers numbers : kNumbers)
      for (const DType dtype : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(fmt::format("{}, {} in {}", p.name, name(dtype),
                                 numbers == RowNumbers::int8 ? "int8" : "fp8"));
        const Operands x = random_operands(p, dtype, numbers);
        const Array got = attend(p, x, test_gpu()), want = attend_in_double(p, x);
        double worst = 0, largest = 0;
        for (std::int64_t i = 0; i < want.type.num_elements(); ++i) {
          worst = std::max(worst, std::abs(get(got, i) - get(want, i)));
          largest = std::max(largest, std::abs(get(want, i)));
        }
        EXPECT_LE(worst, (dtype == DType::f32 ? 2e-6 : 1e-2) * largest);
      }
}

// Scales and numbers of rows that no token has written may be NaN.
TEST(AttentionToCachedRowsOfTheGpu, ReadsNoRowsThatAreNotWritten) {
  for (const std::int64_t tokens : {1, 5})
    for (const RowNumbers numbers : kNumbers) {
      const Problem p{"", tokens, 300, 4, 2, 64, 64, {270, 15}, {{"window", 100}}};
      Operands x = random_operands(p, DType::bf16, numbers);
      const Array want = attend(p, x, test_gpu());
      for (Array* rows : {&x.k, &x.v}) {
        const auto slot = static_cast<std::int64_t>(rows->bytes.size()) / 600;
        const auto spoil = [&](std::int64_t first, std::int64_t end) {
          std::fill(rows->bytes.begin() + first * slot, rows->bytes.begin() + end * slot,
                    std::byte{0xff});
        };
        spoil(270 + tokens, 300);
        spoil(300 + 15 + tokens, 600);
      }
      EXPECT_EQ(attend(p, x, test_gpu()).bytes, want.bytes) << tokens;
    }
}

TEST(AttentionToCachedRowsOfTheGpu, HasTheBitsOfARowAloneAndInABatch) {
  for (const std::int64_t width : {64, 128, 256})
    for (const RowNumbers numbers : kNumbers) {
      const Problem p{"", 1, 600, 4, 2, width, width, {599, 5, 300}, {}};
      const Operands x = random_operands(p, DType::bf16, numbers);
      const Array all = attend(p, x, test_gpu());
      for (std::int64_t b = 0; b < 3; ++b) {
        const auto part = [&](const Array& a) {
          Array out = a;
          const auto bytes = static_cast<std::int64_t>(a.bytes.size()) / 3;
          out.type.shape[0] = 1;
          out.bytes = {a.bytes.begin() + b * bytes, a.bytes.begin() + (b + 1) * bytes};
          return out;
        };
        const Array alone =
            attend(p, {part(x.q), part(x.k), part(x.v), part(x.start), x.sinks}, test_gpu());
        EXPECT_EQ(alone.bytes, part(all).bytes) << width << ", row " << b;
      }
    }
}

TEST(MobaMaskOfCachedRowsOfTheGpu, IsTheMaskOfTheirValues) {
  std::mt19937 random(3);
  for (const RowNumbers numbers : kNumbers) {
    const Array q = random_array({DType::f32, {2, 3, 4, 16}, {}}, random);
    const Array rows = rounded(random_array({DType::f32, {2, 40, 2, 16}, {}}, random), numbers);
    const Array start = array({DType::i32, {2}, {}}, {37, 11});
    const auto mask = [&](const Array& k) {
      Graph g;
      std::vector<Tensor> operands(ops::get("moba_mask").inputs.size());
      operands[operand::moba_mask::kQ] = g.add_input("q", q.type);
      operands[operand::moba_mask::kK] = g.add_input("k", k.type);
      operands[operand::moba_mask::kStart] = g.add_input("start", start.type);
      const std::pair<std::string_view, AttrValue> attrs[] = {{"chunk", std::int64_t{8}},
                                                              {"k", std::int64_t{2}}};
      g.add_output("mask", g.add_node(ops::get("moba_mask"), operands, attrs)[0]);
      return run(g, {q, k, start}, test_gpu())[0].bytes;
    };
    EXPECT_EQ(mask(rows), mask(converted(values_of(rows), DType::f32)));
  }
}

}  // namespace
}  // namespace lamina::testing
