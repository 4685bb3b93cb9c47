// lamina bench: its output, and the operations that it counts as required. Speeds are not tested.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/json.h"
#include "formats/block_formats.h"
#include "inspect/cost/required_work.h"
#include "ops/op.h"
#include "support/goldens.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/temp_dir.h"
#include "text/tokenizer.h"
#include "trained_run.h"

namespace lamina::cli {
namespace {

using inspect::required_flops;
using inspect::required_read_bytes;

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

TEST(Bench, DecodePrintsSpeedAndLimitWithTheirInputs) {
  const Finished result =
      bench({"decode", "--model", kToy, "--tokens", "4", "--repeats", "1", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  expect_numbers(result.out,
                 {"tokens_per_second", "limit_tokens_per_second", "ratio", "bytes_per_token",
                  "read_bandwidth_bytes_per_second", "seconds", "threads"});
}

// A model of two layers with two heads of eight channels.
std::string write_model(const lamina::testing::TempDir& folder) {
  return folder.write(
      "m.toml",
      "family = \"llama2\"\n[model]\nvocab_size = 10\nhidden_size = 16\nintermediate_size = 16\n"
      "num_hidden_layers = 2\nnum_attention_heads = 2\n");
}

TEST(Bench, DefaultsFitTheLearnedPositions) {
  const lamina::testing::TempDir folder;
  const std::string model = write_model(folder);
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--model", model, "--set", "model.trainable_position_size=40",
                               "--repeats", "1", "--json"});
    return bench(words);
  };
  for (const auto& [workload, tokens] : {std::pair{"decode", 24}, {"prefill", 40}, {"train", 40}}) {
    const Finished result = run({workload});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(fmt::format("\"tokens\": {},", tokens))) << workload;
  }
  const Finished refused = run({"decode", "--tokens", "25"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("is 41; the model has learned positions for 40 tokens"));
}

// The context is not read: attention over it would take minutes.
TEST(Bench, DecodesAfterALongContextInEveryStorageOfKeys) {
  const lamina::testing::TempDir folder;
  const std::string model = write_model(folder);
  const auto bytes_per_token = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"decode", "--model", model, "--context", "400000", "--tokens", "2",
                               "--repeats", "1", "--json"});
    const Finished result = bench(more);
    EXPECT_EQ(result.code, 0) << result.err;
    return JsonDocument::parse(result.out, "bench").root().at("bytes_per_token").as_double();
  };
  // Per layer, two heads of keys and values with eight channels; int8 has a scale of four bytes.
  EXPECT_NEAR(bytes_per_token({}), 400000 * 2 * 2 * 2 * 16, 1e5);
  EXPECT_NEAR(bytes_per_token({"--kv-dtype", "int8"}), 400000 * 2 * 2 * 2 * 12, 1e5);
}

TEST(Bench, PrefillAndTrainPrintSpeedAndLimitWithTheirInputs) {
  for (const char* workload : {"prefill", "train"}) {
    const Finished result = bench({workload, "--model", kToy, "--tokens", "16", "--batch", "2",
                                   "--dtype", "float32", "--repeats", "1", "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    expect_numbers(result.out, {"tokens_per_second", "limit_tokens_per_second", "ratio",
                                "bytes_per_token", "read_bandwidth_bytes_per_second",
                                "flops_per_token", "peak_flops_per_second", "seconds"});
  }
}

// A ratio above 1 means that the limit is wrong. Other programs may slow the machine down while the
// limit is measured, so one of a few attempts must be below.
TEST(Bench, NoWorkloadIsFasterThanItsLimit) {
  constexpr double kMargin = 1.1;
  const std::vector<std::string> model = {
      "--model",   LAMINA_SOURCE_DIR "/configs/models/gpt2-124m.toml",
      "--set",     "model.n_layer=2",
      "--set",     "model.vocab_size=4096",
      "--repeats", "1",
      "--json"};
  for (std::vector<std::string> words : {std::vector<std::string>{"decode", "--tokens", "8"},
                                         {"prefill", "--tokens", "256"},
                                         {"prefill", "--tokens", "8"},
                                         {"prefill", "--tokens", "256", "--quantize", "int8"},
                                         {"prefill", "--tokens", "256", "--quantize", "int4"},
                                         {"train", "--tokens", "256"}}) {
    words.insert(words.end(), model.begin(), model.end());
    double ratio = 2;
    for (int attempt = 0; attempt < 5 && ratio > kMargin; ++attempt) {
      const Finished result = bench(words);
      ASSERT_EQ(result.code, 0) << result.err;
      ratio = JsonDocument::parse(result.out, "bench").root().at("ratio").as_double();
    }
    EXPECT_LT(ratio, kMargin) << words[0];
  }
}

TEST(Bench, FewTokensAreLimitedByTheirBytesAndManyByTheirOperations) {
  const auto limited_by = [](const char* tokens) {
    const Finished result = bench({"prefill", "--model", kToy, "--tokens", tokens, "--dtype",
                                   "float32", "--repeats", "1", "--json"});
    return std::string(
        JsonDocument::parse(result.out, "bench").root().at("limited_by").as_string());
  };
  EXPECT_EQ(limited_by("1"), "bytes");
  EXPECT_EQ(limited_by("512"), "operations");
}

TEST(Bench, LazyUpdatesWantATableThatIsOnlyLookedUp) {
  const lamina::testing::TempDir folder;
  const std::string model = write_model(folder);
  auto train = [&](const std::string& tied) {
    return bench({"train", "--model", model, "--tokens", "4", "--repeats", "1", "--lazy-embeddings",
                  "--set", fmt::format("model.tie_word_embeddings={}", tied)});
  };
  const Finished rounded =
      bench({"train", "--model", model, "--lazy-embeddings", "--moments", "8bit"});
  EXPECT_EQ(rounded.code, 2);
  EXPECT_EQ(rounded.err,
            "error: --lazy-embeddings: requires --moments float32, got 8bit\n"
            "  remove one of them, as in a run file\n");
  EXPECT_EQ(train("false").code, 0);
  const Finished refused = train("true");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--lazy-embeddings: this model has no lookup-only table"));
}

TEST(Bench, TrainingTakesAPolicyOfRematerialisation) {
  const auto train = [](const char* policy) {
    return bench({"train", "--model", kToy, "--tokens", "4", "--repeats", "1", "--dtype", "float32",
                  "--remat", policy});
  };
  EXPECT_EQ(train("full").code, 0);
  const Finished refused = train("fulll");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--remat: unknown policy 'fulll'\n  did you mean 'full'?"));
}

TEST(Bench, ProfileNamesKernelsOnStderr) {
  const Finished result = bench({"prefill", "--model", kToy, "--tokens", "4", "--repeats", "1",
                                 "--dtype", "float32", "--profile"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("attention"));
  EXPECT_THAT(result.out, HasSubstr("ratio"));
}

TEST(Bench, KeysOfTheModelMayBeSet) {
  const Finished result =
      bench({"decode", "--model", kToy, "--tokens", "2", "--repeats", "1", "--dtype", "float32",
             "--set", "model.num_hidden_layers=2", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("model.num_hidden_layers=2"));
}

TEST(Bench, CompilePrintsEachPhaseOfEachModel) {
  const Finished result = bench({"compile", kToy, kToy, "--repeats", "1", "--tokens", "8"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("train  prefill   decode   ratio"));
  EXPECT_EQ(std::ranges::count(result.out, '\n'), 4);
  const Finished json = bench({"compile", kToy, "--repeats", "1", "--json"});
  const JsonDocument document = JsonDocument::parse(json.out, "bench");
  const JsonValue first = *document.root().elements().begin();
  for (const char* key : {"train_seconds", "prefill_seconds", "decode_seconds", "ratio"})
    EXPECT_GT(first.find(key).as_double(), 0) << key;
}

TEST(Bench, CompileRefusesAModelBeforeItPrintsATable) {
  const lamina::testing::TempDir folder;
  const std::string broken = folder.write("broken.toml", "family = \"nosuch\"\n[model]\n");
  for (const std::vector<std::string>& models :
       {std::vector{broken}, std::vector{std::string(kToy), folder / "none.toml"}}) {
    std::vector<std::string> words = {"compile", "--repeats", "1", "--tokens", "8"};
    words.insert(words.end(), models.begin(), models.end());
    const Finished result = bench(words);
    EXPECT_NE(result.code, 0);
    EXPECT_EQ(result.out, "");
  }
}

TEST(Bench, TextPrintsEachWorkWithItsBar) {
  const lamina::testing::TempDir folder;
  text::make_byte_tokenizer()->save(folder.path());
  folder.write("chat_template.jinja", "{% for m in messages %}{{ m.content }}\n{% endfor %}");
  const std::string text = folder.write("text.txt", "In the beginning were words.\n");
  const Finished result =
      bench({"text", "-m", folder.path(), "-f", text, "--repeats", "1", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const JsonDocument document = JsonDocument::parse(result.out, "bench");
  std::vector<std::string> names;
  for (const JsonValue row : document.root().at("rows").elements()) {
    names.emplace_back(row.at("name").as_string());
    EXPECT_GT(row.at("value").as_double(), 0) << names.back();
    EXPECT_GT(row.at("ratio").as_double(), 0) << names.back();
  }
  EXPECT_THAT(names, ::testing::ElementsAre("vocabulary", "encode", "decode", "sampling",
                                            "template of 100 messages"));
  const Finished empty = bench({"text", "-m", folder.path(), "-f", folder.write("empty.txt", "")});
  EXPECT_EQ(empty.code, 5);
  EXPECT_THAT(empty.err, HasSubstr("empty.txt: the text is empty"));
}

TEST(Bench, StartWaitsForTheFirstTokenOfANewProcess) {
  const Finished result = bench({"start", "-m", trained_run(), "--repeats", "2", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  expect_numbers(result.out, {"first_token_seconds", "end_seconds", "limit_seconds", "ratio",
                              "read_bandwidth_bytes_per_second", "weight_bytes", "threads"});
  const JsonDocument document = JsonDocument::parse(result.out, "bench");
  EXPECT_LE(document.root().at("first_token_seconds").as_double(),
            document.root().at("end_seconds").as_double());
  EXPECT_EQ(document.root().at("first_token_seconds_of_repeats").size(), 2u);
}

TEST(Bench, StartPassesOnTheMessagesOfDecode) {
  const Finished result = bench({"start", "-m", trained_run(), "-p", std::string(100, 'x')});
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, HasSubstr("the prompt has 101 tokens; the context has room for 64"));
  EXPECT_THAT(result.err, HasSubstr("ended with code 5\n  the reason is printed above"));
}

TEST(Bench, StartRefusesWhatDecodeRefuses) {
  const Finished file = bench({"start", "-m", kToy});
  EXPECT_EQ(file.code, 4);
  EXPECT_THAT(file.err, HasSubstr("gpt3-52k.toml: describes a model but has no weights"));
  const Finished none = bench({"start", "-m", "/nonexistent"});
  EXPECT_EQ(none.code, 4);
  EXPECT_THAT(none.err, HasSubstr("/nonexistent: no such file or directory; expected a Hugging "
                                  "Face directory, a GGUF file, a checkpoint or a run directory"));
  const Finished model =
      bench({"start", "-m", lamina::testing::golden_dir() / "hf" / "llama3_gqa"});
  EXPECT_EQ(model.code, 4);
  EXPECT_THAT(model.err, HasSubstr("llama3_gqa: has no tokenizer, so it cannot read the prompt"));
  EXPECT_EQ(model.err.find("--ids"), std::string::npos) << model.err;
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

TEST(RequiredWork, IsDividedByTheOperandsOfProducts) {
  const formats::BlockFormat* q8 = formats::find_block_format(8);
  Graph g;
  Tensor x = g.add_input("x", {DType::bf16, {5, 32}, {}});
  Tensor plain = g.add_input("plain", {DType::bf16, {32, 32}, {}});
  Tensor stored = g.add_input("stored", {DType::bf16, {64, 32}, {}, q8});
  g.add_output("y", ops::call("linear", {ops::call("linear", {x, plain}), stored}));
  const std::vector<inspect::ProductWork> work = inspect::flops_by_operands(g);
  ASSERT_EQ(work.size(), 2u);
  EXPECT_EQ(work[0].operands, (inspect::ProductOperands{DType::bf16, nullptr}));
  EXPECT_EQ(work[0].flops, 2 * 5 * 32 * 32);
  EXPECT_EQ(work[1].operands, (inspect::ProductOperands{DType::bf16, q8}));
  EXPECT_EQ(work[1].flops, 2 * 5 * 32 * 64);
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

TEST(RequiredWork, CompressedAttentionCountsTokensOfTheWindowAndEntriesOfEndedOnes) {
  Graph g;
  Tensor q = g.add_input("q", {DType::f32, {1, 4, 2, 8}, {}});
  Tensor kv = g.add_input("kv", {DType::f32, {1, 4, 8}, {}});
  Tensor entries = g.add_input("entries", {DType::f32, {1, 2, 8}, {}});
  Tensor ends = g.add_input("ends", {DType::i32, {1, 2}, {}});
  Tensor positions = g.add_input("positions", {DType::i32, {1, 4}, {}});
  ops::call("compressed_attention", {q, kv, entries, ends, ends, positions},
            {{"ratio", std::int64_t{2}}, {"window", std::int64_t{2}}});
  EXPECT_EQ(required_flops(g), 2 * 2 * (8 + 8) * ((1 + 2 + 2 + 2) + (0 + 1 + 1 + 2)));
}

TEST(RequiredWork, ChosenChunksCount) {
  Graph g;
  Tensor q = g.add_input("q", {DType::f32, {1, 6, 1, 8}, {}});
  Tensor mask =
      ops::call("moba_mask", {q, q}, {{"chunk", std::int64_t{2}}, {"k", std::int64_t{2}}});
  const double choice = 2 * 6 * 8 * 3;
  EXPECT_EQ(required_flops(g), choice);
  ops::call_all("attention", {q, q, q, {}, mask});
  EXPECT_EQ(required_flops(g), choice + (1 + 2 + 3 + 4 + 4 + 4) * 2 * (8 + 8));
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
  m.inputs = {{decoder::Input::parameter, {0}, false, {}},
              {decoder::Input::tokens, {}, false, {}},
              {decoder::Input::parameter, {1}, false, {}}};
  EXPECT_EQ(required_read_bytes(m, {}, 1), 8 * 2 + 100 * 8 * 2);
}

TEST(RequiredWork, TablesThatLayersLookUpCountTheirRows) {
  auto body = std::make_shared<Graph>();
  Tensor ids = body->add_input("ids", {DType::i32, {1, 1}, {}});
  Tensor h = body->add_input("h", {DType::bf16, {1, 1, 8}, {}});
  Tensor table = body->add_input("table", {DType::bf16, {100, 8}, {}});
  Tensor w = body->add_input("w", {DType::bf16, {8, 8}, {}});
  body->add_output("h", ops::call("linear", {h + ops::call("embedding", {table, ids}), w}));
  decoder::ModelGraph m;
  Tensor tokens = m.graph.add_input("tokens", {DType::i32, {1, 1}, {}});
  Tensor x = m.graph.add_input("x", {DType::bf16, {1, 1, 8}, {}});
  Tensor tables = m.graph.add_input("tables", {DType::bf16, {3, 100, 8}, {}});
  Tensor ws = m.graph.add_input("ws", {DType::bf16, {3, 8, 8}, {}});
  ops::call_all("scan", {tokens, x, tables, ws},
                {{"body", std::shared_ptr<const Graph>(body)},
                 {"times", std::int64_t{3}},
                 {"num_consts", std::int64_t{1}},
                 {"num_carries", std::int64_t{1}}});
  m.inputs = {{decoder::Input::tokens, {}, false, {}},
              {decoder::Input::tokens, {}, false, {}},
              {decoder::Input::parameter, {0}, false, {}},
              {decoder::Input::parameter, {1}, false, {}}};
  EXPECT_EQ(required_read_bytes(m, {}, 1), 3 * (8 * 2 + 64 * 2));
}

TEST(RequiredWork, ExpertsThatRowsCanChooseCount) {
  decoder::ModelGraph m;
  Tensor x = m.graph.add_input("x", {DType::bf16, {2, 8}, {}});
  Tensor w = m.graph.add_input("w", {DType::bf16, {10, 4, 8}, {}});
  Tensor offsets = m.graph.add_input("offsets", {DType::i32, {11}, {}});
  m.graph.add_output("y", ops::call("grouped_linear", {x, w, offsets}));
  m.inputs = {{decoder::Input::tokens, {}, false, {}},
              {decoder::Input::parameter, {0}, false, {}},
              {decoder::Input::tokens, {}, false, {}}};
  EXPECT_EQ(required_read_bytes(m, {}, 1), 2 * 4 * 8 * 2);
  EXPECT_EQ(required_flops(m.graph), 2 * 2 * 4 * 8);
}

TEST(RequiredWork, RecurrentStateIsReadWhole) {
  decoder::StateTensor state{"layers.0.state", 0, {DType::f32, {1, 64, 8, 8}, {}}, false};
  state.kind = registry::StateKind::recurrent;
  EXPECT_EQ(required_read_bytes({}, {state}, 1), 64 * 8 * 8 * 4);
}

TEST(RequiredWork, DeltaRulesCountTheirStateInBothForms) {
  Graph g;
  Tensor q = g.add_input("q", {DType::f32, {1, 5, 2, 8}, {}});
  Tensor v = g.add_input("v", {DType::f32, {1, 5, 4, 16}, {}});
  Tensor decay = g.add_input("g", {DType::f32, {1, 5, 4}, {}});
  ops::call("gated_delta_rule", {q, q, v, decay, decay});
  const double once = 6.0 * 5 * 4 * 16 * 8;
  EXPECT_EQ(required_flops(g), once);
  Tensor row = g.add_input("row", {DType::i32, {1}, {}});
  Tensor state = g.add_input("state", {DType::f32, {1, 4, 8, 16}, {}});
  ops::call_all("gated_delta_rule_step", {q, q, v, decay, decay, row, row, state});
  EXPECT_EQ(required_flops(g), 2 * once);
}

TEST(RequiredWork, LatentAttentionOverStateCountsTheCheaperForm) {
  Graph g;
  Tensor q = g.add_input("q", {DType::f32, {1, 1, 4, 6}, {}});
  Tensor latent = g.add_input("latent", {DType::f32, {1, 32, 8}, {}});
  Tensor rope = g.add_input("rope", {DType::f32, {1, 32, 2}, {}});
  Tensor w = g.add_input("w", {DType::f32, {4 * (4 + 4), 8}, {}});
  Tensor start = g.add_input("start", {DType::i32, {1}, {}});
  ops::call("latent_attention_step", {q, latent, rope, w, {}, start},
            {{"nope_dim", std::int64_t{4}}});
  // There are ten tokens, and their keys and values exist already.
  EXPECT_EQ(required_flops(g, 9), 2 * (4 * 8 * 8 + 4 * 10 * (2 * 8 + 2)));
}

TEST(RequiredWork, DecodeStateCountsTheTokensInIt) {
  decoder::StateTensor kv{"layers.0.kv.k", 0, {DType::bf16, {1, 64, 2, 8}, {}}, false};
  EXPECT_EQ(required_read_bytes({}, {kv}, 10), 10 * 2 * 8 * 2);
  EXPECT_EQ(required_read_bytes({}, {kv}, 1000), 64 * 2 * 8 * 2);
}

}  // namespace
}  // namespace lamina::cli
