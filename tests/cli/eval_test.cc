// lamina eval: metrics, the tokens that they cover, and refusals.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "chat/small_tokenizer.h"
#include "cli/trained_run.h"
#include "core/json.h"
#include "support/paths.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;

struct Numbers {
  double loss = 0, perplexity = 0, bits_per_byte = 0;
  std::int64_t tokens = 0, bytes = 0;
};

Numbers eval(std::vector<std::string> words) {
  words.insert(words.begin(), "eval");
  words.push_back("--json");
  const Finished result = lamina_program(words);
  EXPECT_EQ(result.code, 0) << result.err;
  if (result.code != 0) return {};
  const JsonDocument json = JsonDocument::parse(result.out, "eval");
  return {json.root().at("loss").as_double(), json.root().at("perplexity").as_double(),
          json.root().at("bits_per_byte").as_double(), json.root().at("tokens").as_int64(),
          json.root().at("bytes").as_int64()};
}

// Writes a run file that trains the model in base/ on conversations, and returns its path. `data`:
// other keys of [data].
std::string chat_run(const TempDir& folder, int steps, const std::string& data) {
  return folder.write("run.toml",
                      fmt::format("train = {{ from = \"base\", steps = {}, batch_size = 1 }}\n"
                                  "run = {{ out = \"out\" }}\ndata = {{ form = \"chat\", {} }}\n",
                                  steps, data));
}

TEST(Eval, Example) {
  const Finished result = lamina_program({"eval", trained_run()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("nats per token"));
  EXPECT_THAT(result.out, HasSubstr("bits per byte"));
  const TempDir folder;
  const Finished one_byte =
      lamina_program({"eval", "-m", trained_run(), "--data", folder.write("a.txt", "a")});
  EXPECT_THAT(one_byte.out, HasSubstr(", 1 byte, 1 row of "));
}

TEST(Eval, RunDirectoryGivesTheValidationLossOfTraining) {
  std::ifstream metrics(trained_run() + "/metrics.jsonl");
  double last = 0;
  for (std::string line; std::getline(metrics, line);) {
    const JsonDocument json = JsonDocument::parse(line, "metrics.jsonl");
    if (JsonValue loss = json.root().find("eval/loss")) last = loss.as_double();
  }
  EXPECT_NEAR(eval({trained_run()}).loss, last, 1e-5);
}

// One number per layer and statistic, in each step's line.
TEST(Train, WritesMetricsOfLayersOnRequest) {
  const TempDir folder;
  const std::string run = folder.write("run.toml", tiny_run_file(folder / "out"));
  const Finished result = lamina_program(
      {"train", run, "--quiet", "--set", "train.layer_metrics=true", "--set", "train.steps=1"});
  ASSERT_EQ(result.code, 0) << result.err;
  std::ifstream metrics(folder / "out/metrics.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(metrics, line));
  const JsonDocument json = JsonDocument::parse(line, "metrics.jsonl");
  for (const char* name : {"mean", "stdev", "zeros"})
    for (const char* layer : {"000", "001"})
      EXPECT_TRUE(json.root().find(fmt::format("train/activation_{}/layer_{}", name, layer)))
          << line;
}

// The last of these numbers belongs to the evaluated checkpoint.
TEST(Eval, ReportsTheAcceptedTokensOfMultiTokenPrediction) {
  const TempDir folder;
  const std::string run = folder.write("run.toml", tiny_run_file(folder / "out"));
  const Finished trained =
      lamina_program({"train", run, "--set", "model.num_nextn_predict_layers=2"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr(", mtp acceptance "));
  std::ifstream metrics(folder / "out/metrics.jsonl");
  double last[2] = {-1, -1};
  for (std::string line; std::getline(metrics, line);) {
    const JsonDocument json = JsonDocument::parse(line, "metrics.jsonl");
    for (int j = 0; j < 2; ++j)
      if (JsonValue share = json.root().find(fmt::format("eval/mtp_acceptance_{}", j + 1)))
        last[j] = share.as_double();
  }
  const Finished text = lamina_program({"eval", folder / "out"});
  EXPECT_THAT(text.out, HasSubstr("mtp accepted   "));
  const Finished result = lamina_program({"eval", folder / "out", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const JsonDocument json = JsonDocument::parse(result.out, "eval");
  int j = 0;
  for (JsonValue share : json.root().at("mtp_acceptance").elements()) {
    EXPECT_GE(last[j], 0);
    EXPECT_LE(last[j], 1);
    EXPECT_NEAR(share.as_double(), last[j++], 1e-9);
  }
  EXPECT_EQ(j, 2);
  // A row of one token has no further token that a block could propose.
  const std::string one = folder.write("a.txt", "letters");
  EXPECT_THAT(lamina_program({"eval", "-m", folder / "out", "--data", one, "--tokens", "1"}).out,
              ::testing::AllOf(HasSubstr("8 rows of 1\n"), Not(HasSubstr("mtp accepted"))));
}

TEST(Eval, PerplexityAndBitsFollowFromTheLoss) {
  const Numbers n = eval({trained_run()});
  EXPECT_NEAR(n.perplexity, std::exp(n.loss), 1e-6 * n.perplexity);
  EXPECT_NEAR(n.bits_per_byte * static_cast<double>(n.bytes),
              n.loss * static_cast<double>(n.tokens) / std::log(2.0), 1e-3);
}

// BOS, seven letters and EOS: eight labels, seven of them text.
TEST(Eval, CountsEveryTokenThatFollowsAnother) {
  const TempDir folder;
  const Numbers n = eval({"-m", trained_run(), "--data", folder.write("a.txt", "letters")});
  EXPECT_EQ(n.tokens, 8);
  EXPECT_EQ(n.bytes, 7);
}

// Trains folder/out for one step with the tokenizer in folder/words, on a text of these words.
void train_with_tokenizer(const TempDir& folder, std::string_view words) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += words;
  const std::string run = folder.write("run.toml", tiny_run_file(folder / "out"));
  const Finished trained =
      lamina_program({"train", run, "--quiet", "--set", "train.steps=1", "--set",
                      fmt::format("data.tokenizer=\"{}\"", folder / "words"), "--set",
                      fmt::format("data.train=[\"{}\"]", folder.write("train.txt", text))});
  ASSERT_EQ(trained.code, 0) << trained.err;
}

// Six of the seven letters follow another; the spelling of the end token is not text.
TEST(Eval, SpecialTokensHaveNoBytes) {
  const TempDir folder;
  folder.write("words/tokenizer.json", lamina::testing::tokenizer_json({"<|the_end_of_a_text|>"}));
  folder.write("words/tokenizer_config.json", R"({"eos_token": "<|the_end_of_a_text|>"})");
  ASSERT_NO_FATAL_FAILURE(train_with_tokenizer(folder, "some words "));
  const Numbers n = eval({"-m", folder / "out", "--data", folder.write("a.txt", "letters")});
  EXPECT_EQ(n.tokens, 7);
  EXPECT_EQ(n.bytes, 6);
}

// BOS, the space, seven letters.
TEST(Eval, ASpaceThatTheTokenizerAddsHasNoBytes) {
  const TempDir folder;
  folder.write("words/tokenizer.json", R"({
    "normalizer": {"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "_"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "_"}]},
    "pre_tokenizer": null,
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "_"}, "content": " "},
      {"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "added_tokens": [{"id": 0, "content": "<s>", "special": true}],
    "model": {"type": "BPE", "unk_token": "?", "merges": [],
      "vocab": {"<s>": 0, "?": 1, "_": 2, "l": 3, "e": 4, "t": 5, "r": 6, "s": 7}}})");
  ASSERT_NO_FATAL_FAILURE(train_with_tokenizer(folder, "letters rest "));
  const Numbers n = eval({"-m", folder / "out", "--data", folder.write("a.txt", "letters"),
                          "--data", folder.write("b.txt", "rest let")});
  EXPECT_EQ(n.tokens, 17);
  EXPECT_EQ(n.bytes, 15);
}

TEST(Eval, BatchSizeChangesNothing) {
  const std::vector<std::string> words = {
      "-m",      trained_run(), "--data", LAMINA_SOURCE_DIR "/docs/glossary.md", "--tokens", "40",
      "--dtype", "float32",     "--batch"};
  auto with_batch = [&](const char* batch) {
    std::vector<std::string> all = words;
    all.push_back(batch);
    return eval(all);
  };
  const Numbers one = with_batch("1"), many = with_batch("7");
  EXPECT_EQ(one.tokens, many.tokens);
  EXPECT_EQ(one.bytes, many.bytes);
  EXPECT_NEAR(one.loss, many.loss, 1e-5);
}

TEST(Eval, DocumentsDoNotSeeEachOther) {
  const TempDir folder;
  const std::string a = folder.write("a.txt", "first text"), b = folder.write("b.txt", "another");
  const auto sum = [&](std::vector<std::string> files) {
    std::vector<std::string> words = {"-m", trained_run(), "--dtype", "float32"};
    for (const std::string& file : files) words.insert(words.end(), {"--data", file});
    const Numbers n = eval(words);
    return n.loss * static_cast<double>(n.tokens);
  };
  EXPECT_NEAR(sum({a, b}), sum({a}) + sum({b}), 1e-3);
}

struct Refusal {
  std::vector<std::string> words;
  int code;
  std::string says;
};

TEST(Eval, RefusesImpossibleEvaluations) {
  const TempDir folder;
  const std::string text = folder.write("a.txt", "letters");
  const std::string toml = LAMINA_SOURCE_DIR "/configs/models/gpt3-52k.toml";
  const Refusal cases[] = {
      {{}, 2, "error: eval: a model is missing; use -m DIR --data FILE, or RUN_DIR\n"},
      {{trained_run(), "-m", trained_run()}, 2, "error: eval: got two models; keep one\n"},
      {{"-m", toml, "--data", text},
       4,
       "error: " + toml +
           ": describes a model but has no weights; expected a directory with a checkpoint\n"},
      {{"-m", trained_run(), "--data", text, "--tokens", "1000"},
       2,
       "error: --tokens: got 1000; the model supports at most 64\n"},
      {{"-m", folder / "none", "--data", text},
       4,
       "error: " + (folder / "none") +
           ": no such file or directory; expected a Hugging Face directory, a GGUF file, a "
           "checkpoint or a run directory\n"},
  };
  for (const Refusal& c : cases) {
    std::vector<std::string> words = c.words;
    words.insert(words.begin(), "eval");
    const Finished result = lamina_program(words);
    EXPECT_EQ(result.code, c.code) << c.says;
    EXPECT_EQ(result.err, c.says);
    EXPECT_EQ(result.out, "");
  }
}

JsonDocument against(std::vector<std::string> words) {
  words.insert(words.begin(), "eval");
  words.push_back("--json");
  const Finished result = lamina_program(words);
  EXPECT_EQ(result.code, 0) << result.err;
  return JsonDocument::parse(result.code == 0 ? result.out : "{}", "eval");
}

TEST(Eval, RowsOfARunAreFixed) {
  for (const char* option : {"--tokens", "--stride", "--separator"}) {
    const Finished f = lamina_program(
        {"eval", trained_run(), option, option == std::string("--separator") ? "line" : "32"});
    EXPECT_EQ(f.code, 2) << option;
    EXPECT_THAT(f.err, HasSubstr(std::string(option) + ": needs --data; the rows of a run's"));
  }
}

// The two checkpoints of the run, as two models.
TEST(EvalAgainst, ReportsThePerplexityOfEachModelAlone) {
  const std::string text = LAMINA_SOURCE_DIR "/docs/glossary.md";
  const std::string first = trained_run() + "/checkpoints/step-00000002";
  const std::vector<std::string> words = {"--data",   text, "--tokens", "40",
                                          "--stride", "30", "--dtype",  "float32"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), words.begin(), words.end());
    return more;
  };
  const JsonDocument json = against(with({"-m", trained_run(), "--against", first}));
  const Numbers mine = eval(with({"-m", trained_run()})), theirs = eval(with({"-m", first}));
  EXPECT_NEAR(json.root().at("loss").as_double(), mine.loss, 1e-6);
  EXPECT_NEAR(json.root().at("perplexity").as_double(), mine.perplexity, 1e-3);
  EXPECT_NEAR(json.root().at("reference_loss").as_double(), theirs.loss, 1e-6);
  EXPECT_EQ(json.root().at("tokens").as_int64(), mine.tokens);
  const double mean = json.root().at("mean_kl").as_double();
  EXPECT_GT(mean, 0);
  EXPECT_LT(mean, json.root().at("max_kl").as_double());
  EXPECT_LT(json.root().at("max_kl_token").as_int64(), mine.tokens);
  EXPECT_LT(json.root().at("top1_agreement").as_double(), 1);
}

TEST(EvalAgainst, AModelEqualsItself) {
  const JsonDocument json =
      against({"-m", trained_run(), "--against", trained_run(), "--ids", "1,2,3,4,5"});
  EXPECT_EQ(json.root().at("mean_kl").as_double(), 0);
  EXPECT_EQ(json.root().at("max_kl").as_double(), 0);
  EXPECT_EQ(json.root().at("top1_agreement").as_double(), 1);
  EXPECT_EQ(json.root().at("tokens").as_int64(), 4);
  EXPECT_EQ(json.root().at("loss").as_double(), json.root().at("reference_loss").as_double());
}

// The model has 64 positions.
TEST(EvalAgainst, WindowsFitTheReference) {
  const TempDir folder;
  const Finished trained =
      train_tiny(folder, "out", {"--quiet", "--set", "model.trainable_position_size=40"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::vector<std::string> words = {
      "-m",           trained_run(), "--against",
      folder / "out", "--data",      folder.write("a.txt", std::string(100, 'a'))};
  EXPECT_EQ(against(words).root().at("rows").as_int64(), 3);  // of 40 for 101 tokens
  std::vector<std::string> longer = words;
  longer.insert(longer.begin(), "eval");
  longer.insert(longer.end(), {"--tokens", "41"});
  const Finished refused = lamina_program(longer);
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err, "error: --tokens: got 41; the reference supports at most 40\n");
}

TEST(EvalAgainst, RefusesModelsThatCannotBeCompared) {
  const TempDir folder;
  std::string run = tiny_run_file(folder / "out");
  run.replace(run.find("vocab_size = 258"), 16, "vocab_size = 260");
  ASSERT_EQ(lamina_program({"train", folder.write("run.toml", run), "--quiet"}).code, 0);
  const auto refusal = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"eval", "-m", trained_run()});
    const Finished result = lamina_program(words);
    EXPECT_EQ(result.code, 2);
    return result.err;
  };
  EXPECT_THAT(refusal({"--against", folder / "out", "--ids", "1,2"}),
              HasSubstr("has a vocabulary of 260, but"));
  EXPECT_EQ(refusal({"--against", trained_run()}),
            "error: --against: needs --data FILE or --ids 1,2,3\n");
  EXPECT_EQ(refusal({"--ids", "1,2"}), "error: --ids: needs --against DIR; add it\n");
  EXPECT_EQ(refusal({"--against", trained_run(), "--ids", "1,2", "--separator", "line"}),
            "error: --separator: has no effect with --ids\n  remove one of them\n");
  EXPECT_EQ(refusal({"--against", trained_run(), "--ids", "1,258"}),
            "error: --ids: id 258 is outside the vocabulary of 258; use 0 to 257\n");
  EXPECT_EQ(refusal({"--against", trained_run(), "--ids", "1"}),
            "error: --ids: no token follows another in its document\n");
  EXPECT_EQ(refusal({"--against", trained_run(), "--ids", "1,2", "--task", "answers"}),
            "error: --against: cannot be used with --task answers; it belongs to --task text\n  "
            "remove it, or add --task text\n");
}

// The checkpoint has the tokenizer and the chat template.
TEST(Eval, ARunNeedsNoDirectoryOfItsStart) {
  const TempDir folder;
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", folder / "base"}).code, 0);
  folder.write("base/chat_template.jinja", "{% for m in messages %}{{ m.content }}|{% endfor %}");
  std::string chats;
  for (int i = 0; i < 10; ++i)
    chats += R"({"messages": [{"role": "user", "content": "a"}, )"
             R"({"role": "assistant", "content": "b"}]})"
             "\n";
  folder.write("chats.jsonl", chats);
  const std::string run = chat_run(
      folder, 1, "train = [\"chats.jsonl\"], sequence_length = 16, validation_fraction = 0.5");
  ASSERT_EQ(lamina_program({"train", run, "--quiet"}).code, 0);
  const Numbers before = eval({folder / "out"});
  std::filesystem::remove_all(folder / "base");
  EXPECT_EQ(eval({folder / "out"}).loss, before.loss);
  EXPECT_GT(before.tokens, 0);
}

TEST(Eval, WarnsAboutChangedValidationData) {
  const TempDir folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += fmt::format("line {} of the text\n", i * i);
  const std::string file = folder.write("a.txt", text), other = folder.write("v.txt", text);
  for (const bool own : {false, true}) {
    folder.write("a.txt", text);
    const std::string out = folder / (own ? "own" : "held_out");
    std::vector<std::string> words = {"train", folder.write("run.toml", tiny_run_file(out)),
                                      "--quiet", "--set", "data.train=" + file};
    if (own)
      words.insert(words.end(),
                   {"--set", "data.validation_fraction=0", "--set", "data.validation=" + other});
    ASSERT_EQ(lamina_program(words).code, 0);
    EXPECT_THAT(lamina_program({"eval", out}).err, Not(HasSubstr("warning: ")));
    folder.write("a.txt", text + text);
    const Finished changed = lamina_program({"eval", out});
    EXPECT_EQ(changed.code, 0) << changed.err;
    const auto says = HasSubstr(
        "step-00000004: the validation data changed since step 4, so the loss cannot be "
        "compared");
    EXPECT_EQ(::testing::Matches(says)(changed.err), !own) << changed.err;
  }
  folder.write("v.txt", text + text);
  EXPECT_THAT(lamina_program({"eval", folder / "own"}).err,
              HasSubstr("the validation data changed since step 4"));
}

// The tokenizer of the checkpoint is a directory without a template.
TEST(Eval, ARunOnPromptsAndCompletionsNeedsNoTemplate) {
  const TempDir folder;
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", folder / "base"}).code, 0);
  std::string records;
  for (int i = 0; i < 10; ++i)
    records += R"({"prompt": "a", "completion": "b"})"
               "\n";
  folder.write("records.jsonl", records);
  const std::string run = chat_run(folder, 2,
                                   "train = [\"records.jsonl\"], tokenizer = \"byte\", "
                                   "sequence_length = 16, validation_fraction = 0.5");
  ASSERT_EQ(lamina_program({"train", run, "--quiet"}).code, 0);
  EXPECT_GT(eval({folder / "out"}).tokens, 0);
  const Finished resumed =
      lamina_program({"train", run, "--quiet", "--resume", "auto", "--set", "train.steps=3"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
}

// The run validates on the same rows.
TEST(Eval, AnswersOfRecordsAreScoredAsByARun) {
  const TempDir folder;
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", folder / "base"}).code, 0);
  std::string records;
  for (int i = 0; i < 5; ++i)
    records += fmt::format(R"({{"prompt": "count {}", "completion": " and {}"}})"
                           "\n",
                           i, i + 1);
  const std::string held_out = folder.write("held_out.jsonl", records);
  const std::string run = chat_run(folder, 1,
                                   "train = [\"held_out.jsonl\"], validation = "
                                   "[\"held_out.jsonl\"], sequence_length = 32");
  ASSERT_EQ(lamina_program({"train", run, "--quiet"}).code, 0);
  const Numbers of_run = eval({folder / "out"});
  // The bytes of " and 1" of each record, and the token that ends a text.
  EXPECT_EQ(of_run.tokens, 5 * 7);
  const Numbers of_files = eval({"-m", folder / "out", "--data", held_out, "--form", "chat",
                                 "--tokens", "32", "--dtype", "float32"});
  EXPECT_EQ(of_files.tokens, of_run.tokens);
  EXPECT_DOUBLE_EQ(of_files.loss, of_run.loss);

  const Finished cut = lamina_program(
      {"eval", "-m", folder / "base", "--data", held_out, "--form", "chat", "--tokens", "12"});
  EXPECT_EQ(cut.code, 0) << cut.err;
  EXPECT_THAT(cut.err, HasSubstr("warning: 5 documents longer than 12 tokens: "));
  const std::string talks = folder.write(
      "talks.jsonl",
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  const Finished bare =
      lamina_program({"eval", "-m", folder / "base", "--data", talks, "--form", "chat"});
  EXPECT_EQ(bare.code, 5);
  EXPECT_THAT(bare.err, HasSubstr("need a chat template"));
  const std::string form =
      folder.write("form.jinja",
                   "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
                   "{% if add_generation_prompt %}assistant: {% endif %}");
  EXPECT_EQ(
      eval({"-m", folder / "base", "--data", talks, "--form", "chat", "--chat-template", form})
          .tokens,
      2);  // "b" and the line feed
}

// eval has no run file, so its errors name no keys.
TEST(Eval, ErrorsInRecordsNameOptionsOfEval) {
  const TempDir folder;
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", folder / "base"}).code, 0);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})",
       "\n  give a template with --chat-template FILE\n"},
      {R"({"text": "a"})", "\n  without --form chat, eval scores a file as plain text\n"},
      {R"({"prompt": "a", "chosen": "b", "rejected": "c"})",
       "\n  a preference record has two answers: give records with \"prompt\" and "
       "\"completion\"\n"},
      {R"({"messages": [{"role": "usr", "content": "a"}]})", "\n  did you mean \"user\"?\n"},
      {R"({"prompt": "longer than a row", "completion": "b"})",
       "\n  --tokens sets the length of a row\n"}};
  for (const auto& [record, says] : cases) {
    const Finished f =
        lamina_program({"eval", "-m", folder / "base", "--data", folder.write("a.jsonl", record),
                        "--form", "chat", "--tokens", "8"});
    EXPECT_EQ(f.code, 5) << record;
    EXPECT_THAT(f.err, HasSubstr(says));
    EXPECT_THAT(f.err, Not(HasSubstr("data.")));
    EXPECT_THAT(f.err, Not(HasSubstr("lamina data show")));
  }
}

TEST(Eval, OptionsOfRecordsThatCannotBeCombinedAreRefused) {
  const TempDir folder;
  const std::string data = folder.write("a.jsonl", "{}\n");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--form", "chat"}, "--form chat: needs --data FILE.jsonl"},
      {{"--form", "chat", "--data", data, "--stride", "4"},
       "--stride: cannot be combined with --form chat"},
      {{"--data", data, "--chat-template", data}, "--chat-template: needs --form chat; add it"},
      {{"--task", "choices", "--data", data, "--form", "chat"},
       "--form: cannot be used with --task choices"}};
  for (const auto& [options, says] : cases) {
    std::vector<std::string> words = {"eval", "-m", trained_run()};
    words.insert(words.end(), options.begin(), options.end());
    const Finished f = lamina_program(words);
    EXPECT_EQ(f.code, 2) << says;
    EXPECT_THAT(f.err, HasSubstr(says));
  }
}

TEST(Eval, ARunThatKeepsNothingBackNeedsText) {
  const TempDir folder;
  std::string run = tiny_run_file(folder / "out");
  run.replace(run.find("validation_fraction = 0.1"), 25, "validation_fraction = 0.0");
  ASSERT_EQ(lamina_program({"train", folder.write("run.toml", run), "--quiet"}).code, 0);
  const Finished result = lamina_program({"eval", folder / "out"});
  EXPECT_EQ(result.code, 5);
  EXPECT_EQ(result.err, "error: " + (folder / "out/config.toml") +
                            ": has no validation data; give text with --data\n");
}

}  // namespace
}  // namespace lamina::cli
