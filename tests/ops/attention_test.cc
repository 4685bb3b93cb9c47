// Cases of attention and its gradient: every variant of the mask.
#include <cmath>

#include "autodiff/vjp.h"
#include "backends/cpu/threads/isa.h"
#include "ops/op.h"
#include "ops/operands.h"
#include "ops/registry.h"
#include "passes/lower.h"
#include "support/op_cases.h"
#include "support/run_graph.h"
#ifdef LAMINA_TEST_ON_GPU
#include "backends/cuda/emulation/driver.h"
#include "backends/cuda/emulation/grid.h"
#endif

namespace lamina::testing {
namespace {

using Attrs = std::vector<std::pair<std::string, AttrValue>>;
AttrValue number(std::int64_t n) { return n; }

// The optional inputs, in their order.
struct Optional {
  In sinks = kAbsent, mask = kAbsent, blocks = kAbsent, slopes = kAbsent, bias = kAbsent,
     positions = kAbsent, key_positions = kAbsent, segments = kAbsent, key_segments = kAbsent,
     start = kAbsent;
};

// q[2, tokens, 4, 6], k and v[2, keys, 2, 6 and 5].
OpCase attend(std::string name, std::int64_t tokens, std::int64_t keys, const Optional& o = {},
              Attrs attrs = {}) {
  OpCase c{.name = std::move(name),
           .inputs = {{.shape = {2, tokens, 4, 6}, .low = -2, .high = 2},
                      {.shape = {2, keys, 2, 6}, .low = -2, .high = 2},
                      {.shape = {2, keys, 2, 5}}},
           .attrs = std::move(attrs)};
  c.inputs.insert(c.inputs.end(), {o.sinks, o.mask, o.blocks, o.slopes, o.bias, o.positions,
                                   o.key_positions, o.segments, o.key_segments, o.start});
  return c;
}

const In kPositions = ints({2, 7}, {0, 1, 2, 3, 0, 1, 2, 5, 6, 7, 8, 9, 10, 11});
const In kSegments = ints({2, 7}, {1, 1, 1, 1, 2, 2, 0, 1, 2, 2, 2, 3, 3, 3});
const In kBlocks = ints({2, 7}, {0, 0, 1, 1, 1, 0, 0, 0, 5, 5, 5, 5, 0, 6});
const In kSinks = {.shape = {4}};
// Two heads have none.
const In kAbsentSinks = {.shape = {4}, .values = {-INFINITY, 0.5, -INFINITY, -1}};
const In kSlopes = {.shape = {4}};
// Distances up to 4.
const In kBias = {.shape = {4, 5}};

// bool[2, tokens, keys]; the first query of each row attends to no key.
In kept(std::int64_t tokens, std::int64_t keys) {
  In in{.shape = {2, tokens, keys}, .dtype = DType::boolean};
  for (std::int64_t i = 0; i < in.shape.num_elements(); ++i)
    in.values.push_back(i / keys % tokens != 0 && i * 2654435761 % 7 < 4);
  return in;
}
// bool[2, 4, tokens, keys].
In kept_by_heads(std::int64_t tokens, std::int64_t keys) {
  In in{.shape = {2, 4, tokens, keys}, .dtype = DType::boolean};
  for (std::int64_t i = 0; i < in.shape.num_elements(); ++i)
    in.values.push_back(i / keys % tokens != 1 && i * 2654435761 % 11 < 6);
  return in;
}
OpCase without_differences(OpCase c) {
  c.gradient = false;
  return c;
}
Optional masked(In mask) { return {.mask = std::move(mask)}; }
Optional segmented(Optional o = {}) {
  o.segments = o.key_segments = kSegments;
  return o;
}

const OpCases kCases =
    {.op = "attention",
     .cases =
         {
             attend("causal", 7, 7),
             attend("one token", 1, 1),
             attend("everything", 7, 7, {}, {{"causal", number(0)}}),
             attend("scale and cap", 7, 7, {}, {{"scale", 0.5}, {"soft_cap", 2.0}}),
             attend("window", 7, 7, {}, {{"window", number(3)}}),
             attend("window without causal", 7, 7, {},
                    {{"window", number(3)}, {"causal", number(0)}}),
             attend("chunk", 7, 7, {}, {{"chunk", number(3)}}),
             attend("positions", 7, 7, {.positions = kPositions, .key_positions = kPositions}),
             attend("segments with padding", 7, 7, segmented()),
             attend("positions and segments", 7, 7,
                    segmented({.positions = kPositions, .key_positions = kPositions})),
             attend("sinks", 7, 7, {.sinks = kSinks}),
             attend("sinks and padding", 7, 7, segmented({.sinks = kSinks}),
                    {{"window", number(2)}}),
             without_differences(attend("sinks of -infinity and padding", 7, 7,
                                        segmented({.sinks = kAbsentSinks}),
                                        {{"window", number(2)}})),
             attend("blocks", 7, 7, {.blocks = kBlocks}),
             attend("blocks end with their segment", 7, 7, segmented({.blocks = kBlocks})),
             attend("mask", 7, 7, masked(kept(7, 7))),
             attend("mask of all pairs", 7, 7, masked(kept(7, 7)), {{"causal", number(0)}}),
             attend("mask and segments", 7, 7, segmented({.sinks = kSinks, .mask = kept(7, 7)})),
             attend("mask of tiles", 70, 70, masked(kept(70, 70))),
             attend("mask of each head", 7, 7, masked(kept_by_heads(7, 7))),
             attend("mask of each head, of tiles", 70, 70, masked(kept_by_heads(70, 70))),
             attend("slopes", 7, 7, {.slopes = kSlopes}),
             attend("slopes, both ways", 7, 7, {.slopes = kSlopes}, {{"causal", number(0)}}),
             attend("slopes and documents", 7, 7,
                    segmented(
                        {.slopes = kSlopes, .positions = kPositions, .key_positions = kPositions}),
                    {{"soft_cap", 2.0}}),
             attend("bias", 7, 7, {.bias = kBias}),
             attend("bias, both ways", 7, 7, {.bias = kBias}, {{"causal", number(0)}}),
             attend("bias of two distances", 7, 7, {.bias = {.shape = {4, 2}}}),
             attend("bias, slopes and all else", 7, 7,
                    segmented({.sinks = kSinks,
                               .mask = kept(7, 7),
                               .blocks = kBlocks,
                               .slopes = kSlopes,
                               .bias = kBias}),
                    {{"window", number(4)}, {"soft_cap", 2.0}}),
             attend(
                 "bias and slopes of tiles",
                 70, 70, {.slopes = {.shape = {4}, .low = 0, .high = 0.5}, .bias = {.shape = {4, 33}}}),
             attend("bias without tokens", 0, 0, {.slopes = kSlopes, .bias = kBias}),
             attend("no tokens", 0, 0),
             attend("a few more", 70, 70),
         },
     .num_differentiable = 1};

const In kStart = ints({2}, {0, 5});

OpCases over_state() {
  auto state = [](std::string name, std::int64_t tokens, std::int64_t capacity, const Optional& o,
                  Attrs attrs = {}) {
    OpCase c = attend(std::move(name), tokens, capacity, o, std::move(attrs));
    c.gradient = false;
    return c;
  };
  auto decode = [&](std::string name, std::int64_t tokens, std::int64_t capacity, In start,
                    Attrs attrs = {}, In mask = kAbsent) {
    return state(std::move(name), tokens, capacity,
                 {.mask = std::move(mask), .start = std::move(start)}, std::move(attrs));
  };
  auto biased = [](In start) {
    return Optional{.slopes = kSlopes, .bias = kBias, .start = std::move(start)};
  };
  return {
      .op = "attention",
      .cases = {
          decode("one token", 1, 9, kStart), decode("three tokens", 3, 9, kStart),
          decode("everything", 3, 9, kStart, {{"causal", number(0)}}),
          decode("window", 2, 9, kStart, {{"window", number(3)}}),
          decode("chunk", 2, 9, kStart, {{"chunk", number(4)}}),
          decode("ring", 1, 4, ints({2}, {2, 11}), {{"ring", number(1)}, {"window", number(4)}}),
          decode("ring of several", 2, 5, ints({2}, {2, 11}),
                 {{"ring", number(1)}, {"window", number(4)}}),
          decode("mask", 3, 20, ints({2}, {2, 17}), {}, kept(3, 20)),
          decode("mask of each head", 3, 20, ints({2}, {2, 17}), {}, kept_by_heads(3, 20)),
          decode("mask of each head, of many rows", 9, 80, ints({2}, {60, 17}), {},
                 kept_by_heads(9, 80)),
          decode("mask of many rows", 9, 80, ints({2}, {60, 17}), {}, kept(9, 80)),
          state("bias and slopes", 1, 9, biased(kStart)),
          state("bias and slopes, a ring", 2, 5, biased(ints({2}, {2, 11})),
                {{"ring", number(1)}, {"window", number(4)}}),
          state("bias and slopes, many rows", 9, 80, biased(ints({2}, {60, 17}))),
          decode("long", 1, 300, ints({2}, {299, 17}))}};
}

const OpCases kState = over_state();

// Widths of 8 and 16: cuDNN takes these nodes with LAMINA_GPU_CUDNN=all, as a test of tests/cuda
// sets it.
OpCase attend_even(std::string name, std::int64_t tokens, std::int64_t keys, const Optional& o = {},
                   Attrs attrs = {}) {
  OpCase c = attend(std::move(name), tokens, keys, o, std::move(attrs));
  for (std::size_t i = 0; i < 3; ++i) c.inputs[i].shape[3] = i == 2 ? 16 : 8;
  if (!o.start.absent) c.gradient = false;
  return c;
}

// The third token of the first row.
OpCase with_query_of_nan(OpCase c) {
  In& q = c.inputs[0];
  const std::int64_t row = q.shape[2] * q.shape[3];
  for (std::int64_t i = 0; i < q.shape.num_elements(); ++i)
    q.values.push_back(i / row == 2 ? NAN : static_cast<double>(i * 2654435761 % 17) / 8 - 1);
  c.name += ", a query is NaN";
  c.gradient = false;
  return c;
}

const OpCases kEven = {
    .op = "attention",
    .dtypes = {DType::bf16, DType::f16},
    .cases = {attend_even("causal", 7, 7),
              attend_even("everything", 7, 7, {}, {{"causal", number(0)}}),
              attend_even("scale", 7, 7, {}, {{"scale", 0.5}}),
              attend_even("window", 7, 7, {}, {{"window", number(3)}}),
              attend_even("wide window", 7, 7, {}, {{"window", number(7)}, {"causal", number(0)}}),
              attend_even("segments with padding", 7, 7, segmented()),
              attend_even("segments both ways", 7, 7, segmented(), {{"causal", number(0)}}),
              attend_even("segments and window", 7, 7, segmented(), {{"window", number(2)}}),
              attend_even("a few more", 70, 70), attend_even("many", 130, 130)},
    .num_differentiable = 1};

const OpCases kQueryOfNan = {
    .op = "attention",
    .dtypes = {DType::bf16, DType::f16},
    .cases = {with_query_of_nan(attend_even("causal", 7, 7)),
              with_query_of_nan(attend_even("segments", 7, 7, segmented())),
              with_query_of_nan(
                  attend_even("segments both ways", 7, 7, segmented(), {{"causal", number(0)}}))},
    .num_differentiable = 1};

const OpCases kEvenState = {
    .op = "attention",
    .dtypes = {DType::bf16, DType::f16},
    .cases = {attend_even("prompt", 5, 12, {.start = ints({2}, {0, 7})}),
              attend_even("prompt with a window", 5, 12, {.start = ints({2}, {0, 7})},
                          {{"window", number(3)}}),
              attend_even("prompt that sees everything", 5, 12, {.start = ints({2}, {0, 7})},
                          {{"causal", number(0)}}),
              attend_even("long prompt", 130, 150, {.start = ints({2}, {3, 20})})}};

LAMINA_TEST_OP(Attention, kCases)
LAMINA_TEST_OP(AttentionOfEvenWidths, kEven)
LAMINA_TEST_OP(AttentionOfAQueryOfNan, kQueryOfNan)
LAMINA_TEST_OP(AttentionOfEvenWidthsOverState, kEvenState)
LAMINA_TEST_OP(AttentionOverState, kState)

// attention_grad has no decomposition: its kernels are compared with the gradient of attention's
// decomposition.
class Gradient {
 public:
  // Computes in `dtype`, with numbers that `rounded` represents exactly.
  Gradient(const OpCase& c, DType dtype, DType rounded) {
    std::mt19937 random(5);
    auto numbers = [&](const In& in, DType floating) {
      Type type{in.dtype.value_or(floating), in.shape, {}};
      return in.values.empty() ? random_array(type, random, in.low, in.high)
                               : array(type, in.values);
    };
    for (const In& in : c.inputs) {
      if (in.absent) {
        operands_.push_back({});
        continue;
      }
      Array a = numbers(in, rounded);
      inputs_.push_back(is_floating(a.type.dtype) ? converted(a, dtype) : a);
      operands_.push_back(graph_.add_input("in", inputs_.back().type));
    }
    std::vector<std::pair<std::string_view, AttrValue>> attrs(c.attrs.begin(), c.attrs.end());
    Tensor y = graph_.add_node(ops::get("attention"), operands_, attrs)[0];
    inputs_.push_back(converted(random_array(y.type().with(rounded), random), dtype));
    graph_.add_input("dy", y.type());
    graph_.add_output("y", y);
  }

  // dq, dk, dv (and dsinks), from attention_grad, or from the decomposition if `lowered`.
  std::vector<Array> compute(bool lowered, const Backend& backend = cpu::cpu_backend()) {
    Graph graph =
        lowered ? passes::lower(
                      graph_, [](const Graph&, const Node& n) { return n.op->name != "attention"; })
                : graph_;
    std::vector<Tensor> wanted;
    for (std::size_t i = 0; i + 1 < graph.inputs().size(); ++i) {
      Tensor input = graph.tensor(graph.inputs()[i].value);
      if (is_floating(input.dtype())) wanted.push_back(input);
    }
    Tensor y = graph.tensor(graph.outputs()[0].value);
    Tensor seed = graph.tensor(graph.inputs().back().value);
    graph.set_outputs({});
    auto grads = autodiff::vjp(graph, std::span(&y, 1), std::span(&seed, 1), wanted,
                               autodiff::save_everything());
    for (const Tensor& g : grads) graph.add_output("d", g);
    return run(graph, inputs_, backend);
  }

 private:
  Graph graph_;
  std::vector<Array> inputs_;
  std::vector<Tensor> operands_;
};

void expect_equal_gradients(const std::vector<Array>& got, const std::vector<Array>& want,
                            DType dtype) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    double largest = 1e-2;
    for (double w : to_doubles(want[i])) largest = std::max(largest, std::abs(w));
    for (std::int64_t e = 0; e < got[i].type.num_elements(); ++e)
      ASSERT_NEAR(get(got[i], e), get(want[i], e), largest * (dtype == DType::f32 ? 1e-5 : 2e-2))
          << "gradient " << i << ", element " << e;
  }
}

#ifndef LAMINA_TEST_ON_GPU
TEST(AttentionGrad, KernelsEqualTheGradientOfTheDecomposition) {
  for (const OpCase& c : kCases.cases)
    for (DType dtype : {DType::f32, DType::bf16}) {
      std::vector<Array> want = Gradient(c, DType::f64, dtype).compute(true);
      for (cpu::Isa set :
           {cpu::Isa::portable, cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::avx512_bf16}) {
        if (set > cpu::best_isa()) break;
        cpu::ScopedIsa limit(set);
        SCOPED_TRACE(fmt::format("{} {} {}", c.name, name(dtype), cpu::name(set)));
        expect_equal_gradients(Gradient(c, dtype, dtype).compute(false), want, dtype);
      }
    }
}
#else
// Heads of the widths of models, which tensor cores take whole, in some tiles of rows and keys.
OpCase wide(std::string name, std::vector<std::int64_t> sizes, const Optional& o = {},
            Attrs attrs = {}) {
  const std::int64_t tokens = sizes[0], keys = sizes[1], heads = sizes[2], kv_heads = sizes[3],
                     width = sizes[4], value_width = sizes[5];
  OpCase c = attend(std::move(name), tokens, keys, o, std::move(attrs));
  c.inputs[0].shape = {2, tokens, heads, width};
  c.inputs[1].shape = {2, keys, kv_heads, width};
  c.inputs[2].shape = {2, keys, kv_heads, value_width};
  return c;
}

const OpCases kWide = {
    .op = "attention",
    .dtypes = {DType::f32, DType::bf16, DType::f16},
    .cases = {wide("64", {70, 70, 2, 1, 64, 64}, {.sinks = {.shape = {2}}}),
              wide("80, a window", {70, 70, 2, 2, 80, 80}, {}, {{"window", number(9)}}),
              wide("128, groups of 4", {40, 40, 4, 1, 128, 128}),
              wide("192 and 128, a cap", {33, 33, 1, 1, 192, 128}, {}, {{"soft_cap", 3.0}}),
              wide("256", {20, 20, 1, 1, 256, 256}, {}, {{"causal", number(0)}}),
              wide("512", {18, 18, 1, 1, 512, 512}, {}, {{"chunk", number(5)}})},
    .num_differentiable = 1};

TEST(AttentionOfWideHeads, KernelsOfTheGpuComputeWhatItMeans) { check_gpu_kernels(kWide); }

// More rows and keys than a tile of warpgroups has, for the heads that they take
// (attention/plan.cc).
const OpCases kManyRows = [] {
  constexpr std::int64_t kTokens = 90;
  In segments{.shape = {2, kTokens}, .dtype = DType::i32};
  for (std::int64_t i = 0; i < 2 * kTokens; ++i)
    segments.values.push_back(static_cast<double>(i % kTokens < 8 ? 0 : 1 + i / 70));
  const auto at = [](double first, double second) {
    return Optional{.start = ints({2}, {first, second})};
  };
  OpCases list = {
      .op = "attention",
      .dtypes = {DType::bf16},
      .cases = {wide("64, a window", {150, 150, 1, 1, 64, 64}, {}, {{"window", number(40)}}),
                wide("128, everything", {140, 140, 1, 1, 128, 128}, {}, {{"causal", number(0)}}),
                wide("64, documents, sinks and a cap", {kTokens, kTokens, 4, 2, 64, 64},
                     {.sinks = {.shape = {4}}, .segments = segments, .key_segments = segments},
                     {{"soft_cap", 2.0}}),
                wide("128, mask and biases", {70, 70, 4, 1, 128, 128},
                     {.mask = kept(70, 70), .slopes = kSlopes, .bias = kBias}),
                wide("64, over state, in splits", {40, 600, 4, 1, 64, 64}, at(550, 3)),
                wide("128, a ring", {40, 200, 2, 1, 128, 128}, at(1000, 100),
                     {{"ring", number(1)}, {"window", number(150)}})}};
  for (OpCase& c : list.cases) c.gradient = false;
  return list;
}();

TEST(AttentionOfManyRows, KernelsOfTheGpuComputeWhatItMeans) { check_gpu_kernels(kManyRows); }

// Keys in splits of tiles: of 128 for few rows, of 512 for more.
TEST(AttentionOfSplitKeys, KernelsOfTheGpuComputeWhatItMeans) {
  const auto at = [](double first, double second) {
    return Optional{.start = ints({2}, {first, second})};
  };
  OpCases list = {.op = "attention",
                  .dtypes = {DType::f32, DType::bf16},
                  .cases = {wide("128, groups of 4", {1, 300, 4, 1, 128, 128}, at(299, 40)),
                            wide("512", {1, 140, 2, 1, 512, 512}, at(139, 3)),
                            wide("many rows", {3, 1100, 20, 1, 16, 16}, at(1090, 510)),
                            wide("a ring", {2, 260, 4, 2, 32, 32}, at(1000, 100),
                                 {{"ring", number(1)}, {"window", number(250)}})}};
  list.cases[0].inputs.insert(list.cases[0].inputs.begin() + 3, {.shape = {4}});
  list.cases[0].inputs.erase(list.cases[0].inputs.begin() + 4);
  check_gpu_kernels(list);
}

// One token per row: in one split, in several, and with the last splits without keys.
TEST(AttentionOfOneToken, KernelsOfTheGpuComputeWhatItMeans) {
  const auto at = [](double first, double second) {
    return Optional{.start = ints({2}, {first, second})};
  };
  const auto with_sinks = [&](double first, double second) {
    Optional o = at(first, second);
    o.sinks = {.shape = {8}};
    return o;
  };
  OpCases list = {
      .op = "attention",
      .dtypes = {DType::bf16},
      .cases = {
          wide("64, one split", {1, 40, 4, 2, 64, 64}, at(39, 0)),
          wide("128, splits", {1, 700, 4, 2, 128, 128}, at(699, 20)),
          wide("128, eight heads and sinks", {1, 600, 8, 1, 128, 128}, with_sinks(520, 255)),
          wide("256, a cap", {1, 600, 2, 1, 256, 256}, at(256, 599), {{"soft_cap", 2.0}}),
          wide("64, three heads", {1, 300, 6, 2, 64, 64}, at(270, 15)),
          wide("64, a window", {1, 900, 2, 1, 64, 64}, at(899, 300), {{"window", number(300)}}),
          wide("128, a narrow window", {1, 900, 2, 2, 128, 128}, at(770, 3),
               {{"window", number(5)}}),
          wide("128, a ring", {1, 600, 2, 1, 128, 128}, at(2000, 300),
               {{"ring", number(1)}, {"window", number(590)}}),
          wide("64, everything", {1, 300, 2, 1, 64, 64}, at(280, 100), {{"causal", number(0)}})}};
  for (OpCase& c : list.cases) c.gradient = false;
  check_gpu_kernels(list);
}

// Runs attention over state, for batch rows [first, first + count) of the inputs.
Array attend_rows(const std::vector<Array>& inputs, std::int64_t first, std::int64_t count) {
  Graph graph;
  std::vector<Array> part;
  std::vector<Tensor> operands(ops::get("attention").inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Array a = inputs[i];
    const auto row = static_cast<std::int64_t>(a.bytes.size()) / a.type.dim(0);
    a.bytes = {a.bytes.begin() + first * row, a.bytes.begin() + (first + count) * row};
    a.type.shape[0] = count;
    const bool is_start = i + 1 == inputs.size();
    operands[is_start ? std::size_t{operand::attention::kStart} : i] =
        graph.add_input("in", a.type);
    part.push_back(std::move(a));
  }
  graph.add_output("y", graph.add_node(ops::get("attention"), operands, {})[0]);
  return run(graph, part, cuda::emulation::emulated_gpu())[0];
}

// q[3, tokens, 4, width] over 600 slots.
void expect_rows_alone_and_together(DType dtype, std::int64_t tokens, std::int64_t width) {
  std::mt19937 random(3);
  const std::vector<Array> inputs = {
      random_array({dtype, {3, tokens, 4, width}, {}}, random),
      random_array({dtype, {3, 600, 2, width}, {}}, random),
      random_array({dtype, {3, 600, 2, width}, {}}, random),
      array({DType::i32, {3}, {}}, {static_cast<double>(600 - tokens), 5, 300})};
  const Array all = attend_rows(inputs, 0, 3);
  for (std::int64_t b = 0; b < 3; ++b) {
    const Array alone = attend_rows(inputs, b, 1);
    const auto bytes = static_cast<std::int64_t>(alone.bytes.size());
    const auto begin = all.bytes.begin() + b * bytes;
    EXPECT_TRUE(std::equal(begin, begin + bytes, alone.bytes.begin())) << "row " << b;
  }
}

TEST(AttentionOfSplitKeys, BitsOfARowOfTheGpuDoNotDependOnItsBatch) {
  for (const DType dtype : {DType::f32, DType::bf16}) expect_rows_alone_and_together(dtype, 1, 32);
}
TEST(AttentionOfOneToken, BitsOfARowOfTheGpuDoNotDependOnItsBatch) {
  for (const std::int64_t width : {64, 128, 256})
    expect_rows_alone_and_together(DType::bf16, 1, width);
}
TEST(AttentionOfManyRows, BitsOfARowOfTheGpuDoNotDependOnItsBatch) {
  for (const std::int64_t width : {64, 128}) expect_rows_alone_and_together(DType::bf16, 40, width);
}

TEST(AttentionGrad, KernelsOfTheGpuEqualTheGradientOfTheDecomposition) {
  for (const OpCases* list : {&kCases, &kEven, &kWide})
    for (const OpCase& c : list->cases)
      for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
        if (dtype == DType::f64 && list != &kCases) continue;
        SCOPED_TRACE(fmt::format("{} {}", c.name, name(dtype)));
        std::vector<std::vector<Array>> got;
        for (const std::uint64_t seed : {1, 2}) {
          cuda::emulation::set_seed(seed);
          got.push_back(Gradient(c, dtype, dtype).compute(false, cuda::emulation::emulated_gpu()));
        }
        expect_equal_gradients(got[0], Gradient(c, DType::f64, dtype).compute(true), dtype);
        for (std::size_t i = 0; i < got[0].size(); ++i)
          EXPECT_EQ(got[0][i].bytes, got[1][i].bytes) << "gradient " << i;
      }
}
#endif

}  // namespace
}  // namespace lamina::testing
