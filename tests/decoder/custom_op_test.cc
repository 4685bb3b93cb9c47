// Plugin ops in blocks: the calls of their kernels, and invalid lowerings.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>

#include "backends/cpu/backend.h"
#include "conformance/subjects/rows.h"
#include "decode/session.h"
#include "decoder/one_block_family.h"
#include "inspect/cost/required_work.h"
#include "inspect/verify/forward.h"
#include "ops/custom.h"
#include "ops/op_code.h"
#include "support/expect_error.h"
#include "weights/weights.h"

namespace lamina::decoder {
namespace {

using sdk::CustomOp;
using sdk::KernelCall;
using sdk::OpUse;
using sdk::Tensor;
using sdk::Tensors;

int runs = 0;  // of the kernel

void triple(const KernelCall& call) {
  ++runs;
  for (std::int64_t row = 0; row < call.in(0).num_rows(); ++row) {
    float v[4];
    call.in(0).load(row, v);
    for (float& x : v) x *= static_cast<float>(call.attrs.number("by"));
    call.out().store(row, v);
  }
}
Tensors multiplied(const OpUse& use) { return {use.in(0) * use.attrs.number("by")}; }

constexpr CustomOp kTriple = {.name = "test.multiplied",
                              .attrs = "by:f=3",
                              .doc = "by x",
                              .lower = multiplied,
                              .forward = {.run = triple}};

std::vector<float> logits(const Model& model) {
  const weights::Weights weights =
      weights::Weights::initialise(model, 1, DType::f32, cpu::cpu_backend());
  return inspect::forward(model, weights.pointers(), conformance::random_rows(model, 2, 7), {},
                          cpu::cpu_backend())
      .logits;
}

struct WithoutKernels {
  WithoutKernels() { ::setenv("LAMINA_PLUGIN_KERNELS", "0", 1); }
  ~WithoutKernels() { ::unsetenv("LAMINA_PLUGIN_KERNELS"); }
};

const Build kUsesTriple = LAMINA_BLOCK({ return x + kTriple({x}, {{"by", 0.5}}); });

TEST(CustomOp, IsComputedByItsKernel) {
  const std::vector<float> plain = logits(open_family_with(LAMINA_BLOCK({ return x + x * 0.5; })));
  const Model model = open_family_with(kUsesTriple, &kTriple);
  runs = 0;
  EXPECT_EQ(logits(model), plain);
  EXPECT_EQ(runs, 2);  // a layer each
}

TEST(CustomOp, UsesItsLoweringIfNoKernelTakesTheType) {
  const Model model = open_family_with(kUsesTriple, &kTriple);
  const std::vector<float> by_kernel = logits(model);
  runs = 0;
  {
    const WithoutKernels off;
    EXPECT_EQ(logits(model), by_kernel);
  }
  static constexpr CustomOp kCoarse = {.name = "test.multiplied",
                                       .attrs = "by:f=3",
                                       .doc = "by x",
                                       .lower = multiplied,
                                       .forward = {.run = triple, .dtypes = sdk::kBfloat16}};
  EXPECT_EQ(logits(open_family_with(LAMINA_BLOCK({
                                      return x + kCoarse({x}, {{"by", 0.5}});
                                    }),
                                    &kCoarse)),
            by_kernel);
  EXPECT_EQ(runs, 0);
}

TEST(CustomOp, HasItsNameAndTheCostOfItsLowering) {
  static constexpr CustomOp kProduct = {
      .name = "test.product",
      .inputs = "x w",
      .doc = "x w",
      .lower = [](const OpUse& use) -> Tensors { return {linear(use.in(0), use.in(1))}; },
      .forward = {.run = triple}};
  const Build by_op = LAMINA_BLOCK({
    Tensor w = s.param("w", {4, 4}, {.axes = {sdk::axis::embed, sdk::axis::embed}});
    return x + kProduct({x, w});
  });
  const Build by_ops = LAMINA_BLOCK({
    Tensor w = s.param("w", {4, 4}, {.axes = {sdk::axis::embed, sdk::axis::embed}});
    return x + sdk::linear(x, w);
  });
  const ModelGraph graph = open_family_with(by_op, &kProduct).forward_graph({2, 3}),
                   plain = open_family_with(by_ops).forward_graph({2, 3});
  EXPECT_NE(to_string(graph.graph).find("test.product("), std::string::npos);
  EXPECT_EQ(inspect::required_flops(graph.graph), inspect::required_flops(plain.graph));
  EXPECT_EQ(inspect::required_read_bytes(graph, {}, 1), inspect::required_read_bytes(plain, {}, 1));
}

// Sums over time, continued by the kernel from call to call.
void running_sum(const KernelCall& call) {
  ++runs;
  const sdk::Buffer x = call.in(0);
  for (std::int64_t b = 0; b < x.dim(0); ++b) {
    float sum[4] = {}, v[4];
    if (call.state_before()) call.state_before().load(b, sum);
    for (std::int64_t t = 0; t < call.count(b, x.dim(1)); ++t) {
      if (call.begins(b, t)) std::fill_n(sum, 4, 0.0f);
      x.load(b * x.dim(1) + t, v);
      for (int i = 0; i < 4; ++i) sum[i] += v[i];
      call.out().store(b * x.dim(1) + t, sum);
    }
    if (call.state_after()) call.state_after().store(b, sum);
  }
}
constexpr CustomOp kSum = {
    .name = "test.running_sum",
    .doc = "sums over time",
    .lower = [](const OpUse& use) -> Tensors {
      Tensor x = use.in(0);
      return {use.step().scan_tokens(
          {.carries = {{"sum", {x.dim(2)}}}, .inputs = {x}},
          [](const sdk::Tensors& carries, const sdk::Tensors& tokens) -> sdk::TokenResults {
            Tensor sum = carries[0] + sdk::widen(tokens[0]);
            return {.carries = {sum}, .results = {cast_like(sum, tokens[0])}};
          })};
    },
    .forward = {.run = running_sum}};

TEST(CustomOp, ContinuesFromItsStateByItsKernel) {
  const Model model = open_family_with(LAMINA_BLOCK({ return x + kSum(s / "sum", {x}); }), &kSum);
  const weights::Weights weights =
      weights::Weights::initialise(model, 1, DType::f32, cpu::cpu_backend());
  const program::Rows rows = conformance::random_rows(model, 1, 9);
  const std::span<const std::int32_t> ids(rows.ids);
  const auto decoded = [&] {
    decode::Session session(model, weights.pointers(), {.capacity = 9, .call_tokens = 4},
                            cpu::cpu_backend());
    session.append(ids.first(7));
    session.append(ids.subspan(7, 1));
    const std::span<const float> last = session.append(ids.subspan(8, 1));
    return std::vector<float>(last.begin(), last.end());
  };
  runs = 0;
  const std::vector<float> by_kernel = decoded();
  EXPECT_GE(runs, 2 * 4);  // two layers; pieces of 4 and 3, two tokens
  const WithoutKernels off;
  const std::vector<float> by_lowering = decoded();
  ASSERT_EQ(by_kernel.size(), by_lowering.size());
  for (std::size_t i = 0; i < by_kernel.size(); ++i)
    EXPECT_NEAR(by_kernel[i], by_lowering[i], 1e-6) << i;
}

// Attention keeps a cache, which kernels do not get: the op runs as its lowering.
TEST(CustomOp, WithACacheDecodesByItsLowering) {
  static constexpr CustomOp kAttention = {
      .name = "test.attention",
      .doc = "attention of one head",
      .lower = [](const OpUse& use) -> Tensors {
        Tensor x = use.in(0);
        Tensor x_BT1D = reshape(x, {x.dim(0), x.dim(1), 1, x.dim(2)});
        const sdk::State kv = use.scope().state(
            LAMINA_STATE_KV, "kv", {1, x.dim(2), x.dim(2)},
            {.axes = {LAMINA_AXIS_CACHE_HEADS, LAMINA_AXIS_CACHE_DIM, LAMINA_AXIS_CACHE_DIM}});
        return {reshape(sdk::attention(x_BT1D, x_BT1D, x_BT1D, kv, {}), x.shape())};
      },
      .forward = {.run = triple, .dtypes = sdk::kBfloat16}};
  const Model model = open_family_with(LAMINA_BLOCK({ return x + kAttention({x}); }), &kAttention);
  const std::string forward = to_string(model.forward_graph({2, 3}).graph),
                    decoding = to_string(model.decode_graph({2, 3}, {.capacity = 8}).graph);
  EXPECT_NE(forward.find("test.attention("), std::string::npos);
  EXPECT_EQ(decoding.find("test.attention("), std::string::npos);
  EXPECT_NE(decoding.find("cache_write("), std::string::npos);
}

// Outside of lowerings the function tags its operands and its result.
TEST(CustomOp, MayAttendAsABlockDoes) {
  static constexpr CustomOp kAttends = {
      .name = "test.attends",
      .doc = "attention of one head",
      .lower = [](const OpUse& use) -> Tensors {
        Tensor x = use.in(0);
        Tensor x_BT1D = reshape(x, {x.dim(0), x.dim(1), 1, x.dim(2)});
        return {reshape(use.step().attend(x_BT1D, x_BT1D, x_BT1D), x.shape())};
      }};
  const Model model = open_family_with(LAMINA_BLOCK({ return x + kAttends({x}); }), &kAttends);
  const std::string decoding = to_string(model.decode_graph({2, 3}, {.capacity = 8}).graph);
  EXPECT_NE(decoding.find("cache_write("), std::string::npos);
}

TEST(CustomOp, SaysWhereAKernelFails) {
  static constexpr CustomOp kFails = {
      .name = "test.fails",
      .doc = "fails",
      .lower = [](const OpUse& use) -> Tensors { return {use.in(0) * 2.0}; },
      .forward = {.run = [](const KernelCall& call) {
        throw sdk::Error(LAMINA_ERROR_SHAPE, "rows of " + std::to_string(call.in(0).width()) +
                                                 " numbers are beyond it");
      }}};
  const Model model = open_family_with(LAMINA_BLOCK({ return kFails({x}); }), &kFails);
  for (const char* words :
       {"the forward kernel of op 'test.fails': failed with status 2 (shape): rows of 4 numbers "
        "are",
        "custom_op_test.cc:", "LAMINA_PLUGIN_KERNELS=0"})
    EXPECT_ERROR_SAYS(logits(model), ExitCode::plugin, words);
}

#define EXPECT_REFUSED(words, lowering, ...)                                                       \
  {                                                                                                \
    static constexpr CustomOp kOp = {.name = "test.op", .doc = "An op.", .lower = lowering};       \
    EXPECT_ERROR_SAYS(open_family_with(LAMINA_BLOCK(__VA_ARGS__), &kOp), ExitCode::plugin, words); \
  }

Tensors same(const OpUse& use) { return {use.in(0)}; }
Tensor outside, leaked;

TEST(CustomOp, RefusesALoweringThatIsMoreThanOps) {
  EXPECT_REFUSED("a parameter is not allowed in the lowering of op 'test.op'",
                 ([](const OpUse& use) -> Tensors {
                   return {use.scope().param("w", {4}, {.axes = {sdk::axis::norm}})};
                 }),
                 { return kOp({x}); });
  EXPECT_REFUSED(
      "an input of the block is not allowed in the lowering of op 'test.op'",
      ([](const OpUse& use) -> Tensors { return {use.step().input(LAMINA_INPUT_POSITIONS)}; }),
      { return kOp({x}); });
  EXPECT_REFUSED(
      "a tag is not allowed in the lowering of op 'test.op'",
      ([](const OpUse& use) -> Tensors { return {sdk::tag(use.in(0), sdk::tags::mlpwo)}; }),
      { return kOp({x}); });
  EXPECT_REFUSED("a loss or metric is not allowed in the lowering of op 'test.op'",
                 ([](const OpUse& use) -> Tensors {
                   use.step().metric("m", use.in(0));
                   return {use.in(0)};
                 }),
                 { return kOp({x}); });
  EXPECT_REFUSED("dropout: is in the lowering of a custom op, which draws no random numbers",
                 ([](const OpUse& use) -> Tensors { return {sdk::dropout(use.in(0), 0.5)}; }),
                 { return kOp({x}); });
}

TEST(CustomOp, RefusesValuesFromTheOtherSideOfItsLowering) {
  EXPECT_REFUSED("input 'b' of op 'add' is a value from outside the lowering of op 'test.op'",
                 ([](const OpUse& use) -> Tensors { return {use.in(0) + outside}; }), {
                   outside = x;
                   return kOp({x});
                 });
  EXPECT_REFUSED(
      "input 'b' of op 'add' is a value of the lowering of op 'test.op', which has ended",
      ([](const OpUse& use) -> Tensors {
        leaked = use.in(0) * 2.0;
        return {leaked};
      }),
      {
        Tensor y = kOp({x});
        return y + leaked;
      });
}

// Direct calls of ext/time_region.h, without carries.
Tensor begin_region(Tensor x) {
  lamina_tensor_t token = 0;
  lamina_time_region_t region{};
  region.size = sizeof region;
  region.inputs = {&x.handle, 1, sizeof x.handle};
  region.tokens = &token;
  const auto& api = sdk::extension<lamina_time_region_api_t>(LAMINA_TIME_REGION_ID);
  sdk::check(api.begin(x.build, &region, nullptr));
  return {x.build, token};
}
Tensor end_region(Tensor token) {
  lamina_tensor_t out = 0;
  lamina_time_results_t results{};
  results.size = sizeof results;
  results.results = {&token.handle, 1, sizeof token.handle};
  results.outputs = &out;
  const auto& api = sdk::extension<lamina_time_region_api_t>(LAMINA_TIME_REGION_ID);
  sdk::check(api.end(token.build, &results, nullptr));
  return {token.build, out};
}

TEST(CustomOp, RefusesALoweringThatEndsARegionOfItsBlock) {
  EXPECT_REFUSED(
      "a region over time ends in the lowering of op 'test.op', which did not begin it",
      ([](const OpUse& use) -> Tensors { return {begin_region(end_region(use.in(0)))}; }),
      { return end_region(kOp({begin_region(x)})); });
}

TEST(CustomOp, RefusesALoweringThatLeavesARegionOpen) {
  EXPECT_REFUSED("test.op: leaves a region over time open in its lowering",
                 ([](const OpUse& use) -> Tensors { return {begin_region(use.in(0))}; }),
                 { return end_region(kOp({x})); });
}

TEST(CustomOp, RefusesALoweringWithUnpairedScopes) {
  EXPECT_REFUSED("a scope is closed in the lowering of op 'test.op', which did not open it",
                 ([](const OpUse& use) -> Tensors {
                   lamina_build_t* b = use.in(0).build;
                   sdk::check(b->api->scope(b, {}, 0));
                   sdk::check(b->api->scope(b, sdk::to_str("other"), 1));
                   return {use.in(0)};
                 }),
                 {
                   sdk::check(x.build->api->scope(x.build, sdk::to_str("own"), 1));
                   return kOp({x});
                 });
  EXPECT_REFUSED("the lowering of op 'test.op' leaves the scope 'own' open",
                 ([](const OpUse& use) -> Tensors {
                   lamina_build_t* b = use.in(0).build;
                   sdk::check(b->api->scope(b, sdk::to_str("own"), 1));
                   return {use.in(0)};
                 }),
                 { return kOp({x}); });
}

TEST(CustomOp, SaysWhereALoweringIsUsed) {
  EXPECT_REFUSED(": the use of op 'test.op', which has this lowering",
                 ([](const OpUse& use) -> Tensors { return {reshape(use.in(0), {3})}; }),
                 { return kOp({x}); });
}

TEST(CustomOp, RefusesALoweringThatMixesTokens) {
  EXPECT_REFUSED("test.op runs reduce_sum, which combines tokens, along dim 1 of x",
                 ([](const OpUse& use) -> Tensors {
                   Tensor x = use.in(0);
                   return {x + reduce_sum(x, {.dims = {1}, .keep = true})};
                 }),
                 { return kOp({x}); });
}

TEST(CustomOp, RefusesWrongCalls) {
  EXPECT_REFUSED("op 'test.op' takes 1 inputs, got 2", same, { return kOp({x, x}); });
  EXPECT_REFUSED("op 'test.op' has no attribute 'by'", same, { return kOp({x}, {{"by", 1.0}}); });
  EXPECT_REFUSED("op 'test.multiplied' is not listed in LAMINA_PLUGIN", same,
                 { return kOp({kTriple({x})}); });
  EXPECT_REFUSED("the lowering of op 'test.op' returns 2 tensors; its outputs are 'y'",
                 ([](const OpUse& use) -> Tensors {
                   return {use.in(0), use.in(0)};
                 }),
                 { return kOp({x}); });
  EXPECT_REFUSED("custom op 3 is requested, but the plugin has 1, numbered from 0", same, {
    lamina_tensor_t out = 0;
    lamina_emit_t emit{};
    emit.size = sizeof emit;
    emit.op = LAMINA_CUSTOM_OPS + 3;
    emit.inputs = {&x.handle, 1, sizeof x.handle};
    emit.outputs = &out;
    emit.n_outputs = 1;
    sdk::check(x.build->api->emit(x.build, &emit, nullptr));
    return Tensor{x.build, out};
  });
}

TEST(CustomOp, HasNoOtherInItsLowering) {
  static const CustomOp* self = nullptr;
  static constexpr CustomOp kOp = {
      .name = "test.op", .doc = "An op.", .lower = [](const OpUse& use) -> Tensors {
        return {(*self)({use.in(0)})};
      }};
  self = &kOp;
  EXPECT_ERROR_SAYS(open_family_with(LAMINA_BLOCK({ return (*self)({x}); }), &kOp),
                    ExitCode::plugin,
                    "custom op 'test.op' is not allowed in the lowering of op 'test.op'");
}

TEST(CustomOp, IsAllowedInARegionOverTime) {
  const Model model = open_family_with(
      LAMINA_BLOCK({
        return step.scan_tokens(
            {.carries = {{"sum", {4}}}, .inputs = {x}},
            [](const sdk::Tensors& carries, const sdk::Tensors& tokens) -> sdk::TokenResults {
              Tensor sum = carries[0] * 0.5 + kTriple({sdk::widen(tokens[0])}, {{"by", 0.1}});
              return {.carries = {sum}, .results = {cast_like(sum, tokens[0])}};
            })[0];
      }),
      &kTriple);
  runs = 0;
  logits(model);
  EXPECT_EQ(runs, 2 * 7);  // for each token of a row
}

// ---------------------------------------------------------------------------------------------

// Loads a plugin with this op and returns the refusal.
std::string refusal(CustomOp op, void (*change)(lamina_custom_op_t&) = nullptr) {
  const sdk::OpTable table(op);
  lamina_custom_op_t source = table.op();
  if (change) change(source);
  try {
    registry::read_custom_ops({sizeof(lamina_custom_ops_t), 0, {&source, 1, sizeof source}},
                              std::make_shared<registry::PluginIdentity>());
  } catch (const std::exception& refused) {
    return refused.what();
  }
  return "";
}

TEST(CustomOp, IsRefusedWhenItIsLoaded) {
  const auto with = [](auto change) {
    CustomOp op = kTriple;
    change(op);
    return refusal(op);
  };
  EXPECT_EQ(with([](CustomOp&) {}), "");
  EXPECT_EQ(with([](CustomOp& op) { op.name = "multiplied"; }),
            "the custom op 'multiplied' must be named '<family or vendor>.<op>', in at most 64 "
            "letters, digits, '_' and '-'");
  EXPECT_EQ(with([](CustomOp& op) { op.name = "lamina.x"; }),
            "custom op 'lamina.x': names in 'lamina.' are reserved by the host");
  EXPECT_EQ(with([](CustomOp& op) { op.doc = ""; }), "custom op 'test.multiplied' has no doc line");
  EXPECT_EQ(with([](CustomOp& op) { op.inputs = ""; }),
            "the inputs of custom op 'test.multiplied' are none; an op needs at least one");
  EXPECT_EQ(with([](CustomOp& op) { op.inputs = "x? y"; }),
            "the inputs of custom op 'test.multiplied' begin with 'x?'; the first input must not "
            "be optional");
  EXPECT_EQ(with([](CustomOp& op) { op.inputs = "xs*"; }),
            "the inputs of custom op 'test.multiplied' have 'xs*'; a name consists of letters, "
            "digits and '_', beginning with a letter");
  EXPECT_EQ(with([](CustomOp& op) { op.inputs = "x x"; }),
            "the inputs of custom op 'test.multiplied' have 'x' twice");
  EXPECT_EQ(with([](CustomOp& op) { op.inputs = "x  y"; }),
            "the inputs of custom op 'test.multiplied' 'x  y' has two spaces in a row");
  EXPECT_EQ(
      with([](CustomOp& op) { op.attrs = "by"; }),
      "the attributes of custom op 'test.multiplied' have 'by'; expected 'name:kind=default'");
  EXPECT_EQ(with([](CustomOp& op) { op.attrs = "by:f"; }),
            "the attributes of custom op 'test.multiplied' have 'by:f', whose default is not a "
            "number of its kind");
  EXPECT_EQ(with([](CustomOp& op) { op.attrs = "by:g=1"; }),
            "the attributes of custom op 'test.multiplied' have 'by:g=1'; expected kind i, b, f, "
            "s, il or fl");
  EXPECT_EQ(with([](CustomOp& op) { op.attrs = "body:i=1"; }),
            "the attributes of custom op 'test.multiplied' have 'body' twice");
  EXPECT_EQ(with([](CustomOp& op) { op.forward.dtypes = 1 << LAMINA_DTYPE_I32; }),
            "the forward kernel of custom op 'test.multiplied' supports no floating-point type "
            "(dtypes 0x20)");
  EXPECT_EQ(with([](CustomOp& op) { op.forward.reads_outputs = true; }),
            "the forward kernel of custom op 'test.multiplied' has flags 0x1; this host does not "
            "know 0x1");
  EXPECT_EQ(refusal(kTriple, [](lamina_custom_op_t& op) { op.lower = nullptr; }),
            "custom op 'test.multiplied' has no lowering; every op needs one");
  EXPECT_EQ(refusal(kTriple, [](lamina_custom_op_t& op) { op.size = 40; }),
            "lamina_custom_op_t has size 40; it must be at least 120");
}

TEST(CustomOp, IsRefusedWhereTwoHaveOneName) {
  const sdk::OpTable table(kTriple);
  const lamina_custom_op_t twice[] = {table.op(), table.op()};
  EXPECT_THROW(
      {
        try {
          registry::read_custom_ops({sizeof(lamina_custom_ops_t), 0, {twice, 2, sizeof twice[0]}},
                                    std::make_shared<registry::PluginIdentity>());
        } catch (const std::exception& refused) {
          EXPECT_STREQ(refused.what(),
                       "two custom ops are named 'test.multiplied'; names must be unique");
          throw;
        }
      },
      std::runtime_error);
}

}  // namespace
}  // namespace lamina::decoder
