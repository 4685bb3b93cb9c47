// Attention masks set by keys of [model], compared with MaxText: every folder of maxtext named
// attn_* that config.json describes completely. The family's block only attends.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "autodiff/vjp.h"
#include "core/json.h"
#include "decoder/one_block_family.h"
#include "inspect/verify/case.h"
#include "inspect/verify/report.h"
#include "ops/tensor.h"
#include "support/goldens.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;
using decoder::Input;
using decoder::Output;

constexpr std::int64_t kHeads = 4, kKvHeads = 2, kHeadDim = 6;
constexpr std::int64_t kWidth = (kHeads + 2 * kKvHeads) * kHeadDim;

// A token's row holds its queries, keys and values.
const decoder::Build attends = LAMINA_BLOCK({
  const auto heads = [x](std::int64_t first, std::int64_t n) {
    return sdk::split_heads(
        sdk::slice(x, {.dim = 2, .start = first * kHeadDim, .size = n * kHeadDim}), n);
  };
  step.attend(heads(0, kHeads), heads(kHeads, kKvHeads), heads(kHeads + kKvHeads, kKvHeads),
              {.scale = 1});
  return x;
});

decoder::Model open_attending(std::int64_t tokens, const JsonValue& keys) {
  config::Raw given;
  const auto add = [&](std::string_view key, config::Value value) {
    given.entries.push_back({"model." + std::string(key),
                             std::move(value),
                             {config::Origin::Kind::run_file, "golden"},
                             {},
                             {}});
  };
  add("vocab_size", tokens);
  add("hidden_size", kWidth);
  add("attention_type", std::string(keys.at("attention_type").as_string()));
  for (const char* key : {"sliding_window_size", "chunk_attn_window_size", "causal_block_size"})
    if (const JsonValue value = keys.find(key); value && !value.is_null())
      add(key, value.as_int64());
  if (const JsonValue cap = keys.find("attn_logits_soft_cap"); cap && !cap.is_null())
    add("attn_logits_soft_cap", cap.as_double());
  if (const JsonValue moba = keys.find("moba"); moba && moba.as_bool())
    for (const char* key : {"moba_chunk_size", "moba_topk"}) add(key, keys.at(key).as_int64());
  return decoder::open_family_with(attends, nullptr, given);
}

// Rows [tokens, kWidth] of queries, keys and values, each [tokens, heads * kHeadDim].
std::vector<double> joined(const std::vector<float>& q, const std::vector<float>& k,
                           const std::vector<float>& v) {
  std::vector<double> out;
  const std::size_t tokens = q.size() / (kHeads * kHeadDim);
  for (std::size_t t = 0; t < tokens; ++t)
    for (const std::vector<float>* part : {&q, &k, &v}) {
      const auto width = static_cast<std::ptrdiff_t>(part->size() / tokens);
      const auto first = part->begin() + static_cast<std::ptrdiff_t>(t) * width;
      out.insert(out.end(), first, first + width);
    }
  return out;
}

std::vector<float> floats(std::span<const double> x) { return {x.begin(), x.end()}; }

void expect_agrees(const inspect::GoldenCase& golden, const JsonValue& keys) {
  const std::int64_t batch = golden.shape("q")[0], tokens = golden.shape("q")[1];
  const decoder::Model model = open_attending(batch * tokens, keys);
  decoder::ModelGraph made = model.forward_graph({.batch = batch, .tokens = tokens},
                                                 {.logits = false, .records = {"attention_out"}});
  Graph& graph = made.graph;
  Tensor table, attended;
  for (std::size_t i = 0; i < made.inputs.size(); ++i)
    if (made.inputs[i].role == Input::parameter) table = graph.tensor(graph.inputs()[i].value);
  for (std::size_t i = 0; i < made.outputs.size(); ++i)
    if (made.outputs[i].role == Output::record) attended = graph.tensor(graph.outputs()[i].value);
  // The first layer's output.
  const Tensor y = ops::slice(attended, 0, 0, 1);
  const Tensor seed = graph.add_input("cotangent", y.type());
  const Tensor rows = autodiff::vjp(graph, std::span(&y, 1), std::span(&seed, 1),
                                    std::span(&table, 1), autodiff::save_everything())[0];
  const std::size_t first = graph.outputs().size();
  graph.add_output("out", y);
  graph.add_output("gradient", rows);

  std::vector<Array> values;
  for (const GraphInput& input : graph.inputs()) values.push_back(zeros(graph.type(input.value)));
  for (std::size_t i = 0; i < made.inputs.size(); ++i) {
    std::vector<double> value(static_cast<std::size_t>(values[i].type.num_elements()));
    if (made.inputs[i].role == Input::tokens || made.inputs[i].role == Input::positions) {
      std::iota(value.begin(), value.end(), 0);
      if (made.inputs[i].role == Input::positions)
        for (double& at : value) at = std::fmod(at, static_cast<double>(tokens));
    } else if (made.inputs[i].role == Input::parameter) {
      value = joined(golden.floats("q"), golden.floats("k"), golden.floats("v"));
    } else {
      value = made.inputs[i].values;
    }
    values[i] = array(values[i].type, value);
  }
  const std::vector<float> cotangent = golden.floats("cotangent");
  values.back() = array(y.type(), std::vector<double>(cotangent.begin(), cotangent.end()));

  const std::vector<Array> got = run(graph, values);
  const std::vector<float> want = golden.floats("out");
  EXPECT_LE(inspect::max_abs_difference(floats(to_doubles(got[first])), want),
            2e-5 * inspect::max_abs(want));
  const std::vector<float> gradient =
      floats(joined(golden.floats("grad_q"), golden.floats("grad_k"), golden.floats("grad_v")));
  EXPECT_LE(inspect::max_abs_difference(floats(to_doubles(got[first + 1])), gradient),
            1e-4 * inspect::max_abs(gradient));
}

TEST(AttentionKindsGolden, AgreeWithMaxText) {
  std::set<std::string> kinds;
  for (const fs::path& folder : golden_folders("maxtext", "golden.safetensors", "attn_")) {
    SCOPED_TRACE(folder.filename().string());
    const inspect::GoldenCase golden(folder.string());
    // No key sets these; attention_golden_test.cc tests them.
    if (golden.has("segment_ids") || golden.has("bidirectional") || golden.has("sinks")) continue;
    const JsonDocument config = JsonDocument::read((folder / "config.json").string());
    expect_agrees(golden, config.root());
    kinds.insert(std::string(config.root().at("attention_type").as_string()));
  }
  if (kinds.empty()) GTEST_SKIP() << "none in " << golden_dir();
  EXPECT_TRUE(kinds.contains("block_diffusion"));
}

}  // namespace
}  // namespace lamina::testing
