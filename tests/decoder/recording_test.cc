// A block is recorded as its plugin describes it, whatever the phase and the options of the host.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "decoder/graph/trace_block.h"
#include "decoder/one_block_family.h"
#include "decoder/trace/recorder.h"

namespace lamina::decoder {
namespace {

using Names = std::vector<std::string>;

Names names_of(const Graph& graph) {
  Names out;
  for (const Node& node : graph.nodes()) out.push_back(node.op->name);
  return out;
}

const Build kAttends = LAMINA_BLOCK({
  sdk::Tensor heads = sdk::split_heads(sdk::linear(s / "wq", x, 4), 2);
  sdk::Tensor mixed = step.attend(heads, heads, heads, {});
  return x + sdk::dropout(sdk::merge_heads(mixed), 0.5);
});

TracePhase phase_of_one_block() {
  TracePhase phase{{.batch = 2, .tokens = 3}, {}, {.capacity = 8, .max_call_tokens = 3}};
  phase.hidden_size = 4;
  phase.num_layers = 2;
  phase.carries = {{DType::f32, {2, 3, 4}, {}}};
  return phase;
}

struct OneBlock {
  std::shared_ptr<const registry::Family> family = family_with(kAttends);
  registry::ModelConfig config = family->configure({}, "test");
  BlockUse use{.block = 1, .overrides = {}};

  Names recorded(const TracePhase& phase) const {
    return names_of(record_block(*family, config, {phase, use}, nullptr).graph());
  }
  Names traced(const TracePhase& phase) const {
    return names_of(trace_block(*family, config, use, nullptr, phase).graph);
  }
};

TEST(Recording, HasTheOpsOfThePluginInEveryPhase) {
  const OneBlock block;
  const Names plain = block.recorded(phase_of_one_block());
  EXPECT_EQ(plain, (Names{"linear", "reshape", "attention", "reshape", "dropout", "add"}));
  TracePhase training = phase_of_one_block();
  training.training = training.segments = true;
  EXPECT_EQ(block.recorded(training), plain);
  TracePhase decoding = phase_of_one_block();
  decoding.stateful = true;
  EXPECT_EQ(block.recorded(decoding), plain);
}

TEST(Recording, IsTheSameWithOptionsOfTheHost) {
  const OneBlock block;
  TracePhase changed = phase_of_one_block();
  changed.training = true;
  changed.options.qk_norm = true;
  changed.options.attention_dropout = 0.5;
  EXPECT_EQ(block.recorded(changed), block.recorded(phase_of_one_block()));
  EXPECT_NE(block.traced(changed), block.traced(phase_of_one_block()));
}

TEST(Recording, BecomesTheStepFormWhileDecoding) {
  const OneBlock block;
  TracePhase decoding = phase_of_one_block();
  decoding.stateful = true;
  const Names step = block.traced(decoding);
  EXPECT_EQ(std::ranges::count(step, "cache_write"), 2);
  EXPECT_EQ(std::ranges::count(step, "dropout"), 0);
}

Names params_of(Build build, const TracePhase& phase) {
  const auto family = family_with(build);
  const BlockUse use{.block = 1, .overrides = {}};
  Names out;
  for (const BlockGraph::Param& param :
       trace_block(*family, family->configure({}, "test"), use, nullptr, phase).params)
    out.push_back(param.desc.name);
  return out;
}

// Another rewrite has put the matrix w3_1 there.
TEST(AdapterRewrite, LeavesMatricesAloneThatThePluginDoesNotHave) {
  const Build feed_forward = LAMINA_BLOCK({
    sdk::Tensor gate = sdk::linear(s / "w1", x, 6);
    sdk::Tensor up = sdk::linear(s / "w3", x, 6);
    sdk::Tensor w2 = s.param("w2", {4, 6}, {.axes = {sdk::axis::embed, sdk::axis::mlp}});
    return x + sdk::linear(sdk::glu(gate, up, {.activation = "silu"}), w2);
  });
  Adapter adapter{.rank = 2, .targets = {{1, "w1.weight"}, {1, "w3_1.weight"}}, .all = true};
  TracePhase phase = phase_of_one_block();
  phase.adapter = &adapter;
  phase.options.mlp_activations = {"silu", "linear", "relu"};
  EXPECT_EQ(params_of(feed_forward, phase),
            (Names{"w1.lora_a", "w1.lora_b", "w1.weight", "w2", "w3.weight", "w3_1.weight"}));
}

TEST(AdapterRewrite, SeesProductsInTheBodyOfARegion) {
  const Build region = LAMINA_BLOCK({
    return step.scan_tokens(
        {.carries = {{"sum", {4}}}, .inputs = {x}},
        [&](const sdk::Tensors& carries, const sdk::Tensors& tokens) -> sdk::TokenResults {
          sdk::Tensor sum = carries[0] + sdk::widen(tokens[0]);
          return {.carries = {sum}, .results = {sdk::linear(s / "w", tokens[0], 4)}};
        })[0];
  });
  Adapter adapter{.rank = 2, .targets = {{1, "w.weight"}}};
  TracePhase phase = phase_of_one_block();
  phase.adapter = &adapter;
  EXPECT_EQ(params_of(region, phase), (Names{"w.lora_a", "w.lora_b", "w.weight"}));
}

}  // namespace
}  // namespace lamina::decoder
