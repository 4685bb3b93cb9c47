// lamina bench: what it prints, and what it counts as required. Speeds are never tested.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/bench/required_work.h"
#include "core/json.h"
#include "ops/op.h"
#include "support/process.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::run_process;
using ::testing::HasSubstr;

const std::string kToy = LAMINA_SOURCE_DIR "/configs/models/gpt3-52k.toml";

Finished bench(std::vector<std::string> words) {
  words.insert(words.begin(), {LAMINA_BUILD_DIR "/bin/lamina", "bench"});
  return run_process(words);
}

void expect_numbers(const std::string& text, const std::vector<std::string>& keys) {
  const JsonDocument document = JsonDocument::parse(text, "bench");
  for (const std::string& key : keys) {
    ASSERT_TRUE(document.root().find(key)) << key << " in " << text;
    EXPECT_GT(document.root().at(key).as_double(), 0) << key;
  }
}

TEST(Bench, DecodePrintsSpeedAndLimitAndWhatTheyComeFrom) {
  const Finished result =
      bench({"decode", "--model", kToy, "--tokens", "4", "--repeats", "1", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  expect_numbers(result.out,
                 {"tokens_per_second", "limit_tokens_per_second", "ratio", "bytes_per_token",
                  "read_bandwidth_bytes_per_second", "seconds", "threads"});
}

TEST(Bench, PrefillAndTrainPrintSpeedAndLimitAndWhatTheyComeFrom) {
  for (const char* workload : {"prefill", "train"}) {
    const Finished result = bench({workload, "--model", kToy, "--tokens", "16", "--batch", "2",
                                   "--dtype", "float32", "--repeats", "1", "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    expect_numbers(result.out, {"tokens_per_second", "limit_tokens_per_second", "ratio",
                                "flops_per_token", "peak_flops_per_second", "seconds"});
  }
}

TEST(Bench, ProfileNamesKernelsOnStderr) {
  const Finished result = bench({"prefill", "--model", kToy, "--tokens", "4", "--repeats", "1",
                                 "--dtype", "float32", "--profile"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("attention"));
  EXPECT_THAT(result.out, HasSubstr("ratio"));
}

TEST(Bench, NeedsAModel) {
  const Finished result = bench({"decode"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--model"));
}

TEST(RequiredWork, Example) {
  Graph g;
  Tensor x = g.add_input("x", {DType::f32, {5, 3}, {}});
  Tensor w = g.add_input("w", {DType::f32, {7, 3}, {}});
  g.add_output("y", ops::call("linear", {x, w}));
  EXPECT_EQ(required_flops(g), 2 * 5 * 3 * 7);
}

TEST(RequiredWork, CausalAttentionCountsPairsThatSeeEachOther) {
  Graph g;
  Tensor q = g.add_input("q", {DType::f32, {2, 4, 6, 8}, {}});
  Tensor k = g.add_input("k", {DType::f32, {2, 4, 3, 8}, {}});
  ops::call_all("attention", {q, k, k});
  EXPECT_EQ(required_flops(g), 2 * 6 * (1 + 2 + 3 + 4) * 2 * (8 + 8));
}

TEST(RequiredWork, WindowedAttentionCountsTheWindow) {
  Graph g;
  Tensor q = g.add_input("q", {DType::f32, {1, 4, 1, 8}, {}});
  ops::call_all("attention", {q, q, q}, {{"window", std::int64_t{2}}});
  EXPECT_EQ(required_flops(g), (1 + 2 + 2 + 2) * 2 * (8 + 8));
}

TEST(RequiredWork, ScanCountsEveryRound) {
  auto body = std::make_shared<Graph>();
  Tensor h = body->add_input("h", {DType::f32, {1, 4}, {}});
  Tensor w = body->add_input("w", {DType::f32, {4, 4}, {}});
  body->add_output("h", ops::call("linear", {h, w}));
  Graph g;
  Tensor x = g.add_input("x", {DType::f32, {1, 4}, {}});
  Tensor ws = g.add_input("ws", {DType::f32, {9, 4, 4}, {}});
  ops::call_all("scan", {x, ws},
                {{"body", std::shared_ptr<const Graph>(body)},
                 {"times", std::int64_t{9}},
                 {"num_carries", std::int64_t{1}}});
  EXPECT_EQ(required_flops(g), 9 * 2 * 4 * 4);
}

TEST(RequiredWork, TablesThatAreLookedUpCountTheirRows) {
  decoder::ModelGraph m;
  Tensor table = m.graph.add_input("table", {DType::bf16, {100, 8}, {}});
  Tensor ids = m.graph.add_input("ids", {DType::i32, {1, 1}, {}});
  Tensor head = m.graph.add_input("head", {DType::bf16, {100, 8}, {}});
  Tensor x = ops::call("embedding", {table, ids});
  m.graph.add_output("y", ops::call("linear", {x, head}));
  m.inputs = {{decoder::Role::parameter, {0}, false, {}},
              {decoder::Role::tokens, {}, false, {}},
              {decoder::Role::parameter, {1}, false, {}}};
  EXPECT_EQ(required_read_bytes(m, {}, 1), 8 * 2 + 100 * 8 * 2);
}

TEST(RequiredWork, DecodeStateCountsTheTokensInIt) {
  decoder::StateTensor kv{"layers.0.kv.k", 0, {DType::bf16, {1, 64, 2, 8}, {}}, false};
  EXPECT_EQ(required_read_bytes({}, {kv}, 10), 10 * 2 * 8 * 2);
  EXPECT_EQ(required_read_bytes({}, {kv}, 1000), 64 * 2 * 8 * 2);
}

}  // namespace
}  // namespace lamina::cli
