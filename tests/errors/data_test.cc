// Data that a run cannot use, and the messages; `data build` and `data show`.
#include <filesystem>

#include "core/json.h"
#include "data/packed_text.h"
#include "errors/workplace.h"
#include "support/sanitizers.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> kChat = {"train", "run.toml",
                                        "--set", "data.form=chat",
                                        "--set", "data.train=chats.jsonl",
                                        "--set", "data.chat_template=chat.jinja"};

// Twelve questions with answers, and a template.
void write_chats(const Workplace& w) {
  std::string text;
  for (int i = 0; i < 12; ++i)
    text += R"({"messages": [{"role": "user", "content": "ask )" + std::to_string(i) +
            R"("}, {"role": "assistant", "content": "say )" + std::to_string(i) + "\"}]}\n";
  w.write("chats.jsonl", text);
  w.write("chat.jinja",
          "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}"
          "{% if add_generation_prompt %}a:{% endif %}");
}

std::vector<std::string> with(std::vector<std::string> words, std::vector<std::string> more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<std::string> stores(const Workplace& w, const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(w.path(folder)))
    if (entry.is_directory()) out.push_back(entry.path().filename().string());
  return out;
}

TEST(DataFaults, ABadRecordEndsTheRunBeforeItBegins) {
  Workplace w;
  write_chats(w);
  w.write("chats.jsonl", w.read("chats.jsonl") + "{\"messages\": 5}\n");
  w.expect({kChat,
            5,
            {"chats.jsonl:13: 'messages' must be an array, got 5",
             "data.bad_records = \"skip\" skips and counts such records"}});
  EXPECT_FALSE(w.exists("out"));
  Finished f = w.lamina(with(kChat, {"--set", "data.bad_records=skip"}));
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err, HasSubstr("12 documents"));
  EXPECT_THAT(f.err, HasSubstr("1 bad record skipped"));
  EXPECT_THAT(f.err, HasSubstr("skipped "));
  EXPECT_THAT(f.err, HasSubstr("chats.jsonl:13: 'messages' must be an array, got 5"));
}

TEST(DataFaults, ALineThatIsTooLongIsNotHeld) {
  Workplace w;
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += "{\"text\": \"line of some words\"}\n";
  const std::string text = lines + "{\"text\": \"" + std::string(200 << 20, 'x') + "\"}\n" + lines;
  w.write("a.jsonl.gz", gzipped(text));
  w.write("b.jsonl", text);
  for (const char* file : {"a.jsonl.gz", "b.jsonl"}) {
    const std::vector<std::string> words = {
        "train", "run.toml",        "--set", "data.form=jsonl",
        "--set", "data.store=none", "--set", "data.train=" + std::string(file)};
    const Finished refused = w.lamina(words);
    EXPECT_EQ(refused.code, 5);
    EXPECT_THAT(refused.err, HasSubstr(std::string(file) +
                                       ":21: the line has more than 67108864 bytes, the maximum "
                                       "for a record"));
    const Finished f = w.lamina(
        with(words, {"--out", file + std::string(".out"), "--set", "data.bad_records=skip"}));
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_THAT(f.err, HasSubstr("40 documents"));
    EXPECT_THAT(f.err, HasSubstr("1 bad record skipped"));
    if (!kSanitized && file[0] == 'a') {
      EXPECT_LT(std::max(f.peak_bytes, refused.peak_bytes), std::size_t{300} << 20);
    }
  }
}

TEST(DataFaults, BuildingAStoreThatCannotBeMadeIsAnError) {
  Workplace w;
  w.expect({{"data", "build", "run.toml", "--set", "data.store=/proc/nosuch"},
            4,
            {"/proc/nosuch/", "cannot be created: no such file or directory",
             "set data.store to a writable folder"}});
  w.write("file", "");
  w.expect({{"data", "build", "run.toml", "--set", "data.store=file/tokens"},
            4,
            {"file/tokens/", "cannot be created: not a directory"}});
}

TEST(DataFaults, PackedFilesThatAreDamagedAreNamed) {
  Workplace w;
  w.write("a.jsonl.gz", gzipped("{\"text\": \"one\"}\n").substr(0, 20));
  w.write("b.txt.zst", "not packed at all");
  w.expect({{"train", "run.toml", "--set", "data.train=a.jsonl.gz", "--set", "data.form=jsonl"},
            5,
            {"a.jsonl.gz: is not a complete gzip file: it ends too early",
             "download or copy the "
             "file again"}});
  w.expect({{"train", "run.toml", "--set", "data.train=b.txt.zst"},
            5,
            {"b.txt.zst: is not a complete zstd file"}});
}

TEST(DataFaults, FilesOfOtherKindsAreNamedByKind) {
  Workplace w;
  w.write("a.parquet", std::string("PAR1") + std::string(40, '\x15') + "PAR1");
  w.write("a.json", "[\n{\"text\": \"a\"}\n]\n");
  w.expect({{"train", "run.toml", "--set", "data.train=a.parquet"},
            5,
            {"a.parquet: is a Parquet file (a columnar table), which lamina cannot read",
             "convert it to JSON lines"}});
  w.expect({{"train", "run.toml", "--set", "data.train=a.json", "--set", "data.form=jsonl"},
            5,
            {"a.json: is a JSON list; expected JSON objects, one per line", "jq -c '.[]'"}});
}

TEST(DataFaults, RowsWithoutAnythingToLearnAreNamed) {
  Workplace w;
  write_chats(w);
  w.expect({with(kChat, {"--set", "data.sequence_length=8"}),
            5,
            {"none of the 12 documents has a token in the loss among its first 9 tokens",
             "`lamina data show` prints the rows; check data.loss_on, or raise "
             "data.sequence_length"}});
}

TEST(DataFaults, AChangedLossIsOtherDataForAResumedRun) {
  Workplace w;
  write_chats(w);
  ASSERT_EQ(w.lamina(kChat).code, 0);
  Finished f = w.lamina(with(kChat, {"--set", "data.loss_on=all", "--set", "train.steps=8"}));
  EXPECT_EQ(f.code, 2) << f.err;
  EXPECT_THAT(f.err, HasSubstr("data.loss_on"));
}

TEST(DataFaults, WeightsAreOneForEachEntry) {
  Workplace w;
  w.expect({{"train", "run.toml", "--set", "data.weights=[1, 2]"},
            2,
            {"'data.weights' has 2 numbers, but 'data.train' has 1 entry",
             "give one number per entry; a folder or a glob is one entry"}});
  w.write("more/a.txt", w.read("text.txt"));
  const std::vector<std::string> words = {"train", "run.toml",
                                          "--set", "data.train=[\"text.txt\", \"more\"]",
                                          "--set", "data.weights=[3, 1]"};
  Finished f = w.lamina(words);
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err, HasSubstr("text.txt: 75.0% of the rows, an epoch is "));
  f = w.lamina(with(words, {"--set", "train.steps=8"}));
  EXPECT_EQ(f.code, 0) << f.err;
}

// The losses of a run's steps.
std::vector<double> losses(const Workplace& w, const std::string& run) {
  std::vector<double> out;
  const std::string metrics = w.read(run + "/metrics.jsonl");
  constexpr std::string_view kKey = "\"train/loss\":";
  for (std::size_t at = metrics.find(kKey); at != metrics.npos; at = metrics.find(kKey, at + 1))
    out.push_back(std::stod(metrics.substr(at + kKey.size(), 20)));
  return out;
}

TEST(DataRows, PackedConversationsEqualSeparateOnes) {
  Workplace w;
  write_chats(w);
  const std::vector<std::string> words =
      with(kChat, {"--set", "data.sequence_length=64", "--set", "data.shuffle=false", "--set",
                   "train.steps=1"});
  ASSERT_EQ(w.lamina(with(words, {"--out", "packed", "--set", "train.batch_size=4"})).code, 0);
  ASSERT_EQ(w.lamina(with(words, {"--out", "separate", "--set", "train.batch_size=12", "--set",
                                  "data.pack=false"}))
                .code,
            0);
  EXPECT_NEAR(losses(w, "packed").at(0), losses(w, "separate").at(0), 1e-5);
}

TEST(DataRows, ConversationsAreLearned) {
  Workplace w;
  write_chats(w);
  const std::vector<std::string> words =
      with(kChat, {"--set", "data.sequence_length=64", "--set", "train.steps=60", "--set",
                   "optimizer.lr=1e-2", "--quiet"});
  Finished f = w.lamina(words);
  ASSERT_EQ(f.code, 0) << f.err;
  const std::vector<double> steps = losses(w, "out");
  EXPECT_GT(steps.at(0), 5.0);
  EXPECT_LT(steps.at(59), 1.0);
}

TEST(DataShow, PrintsRowsWithLearnedParts) {
  Workplace w;
  write_chats(w);
  std::vector<std::string> words = with(kChat, {"--set", "data.shuffle=false", "-n", "1"});
  words.erase(words.begin());
  words.insert(words.begin(), {"data", "show"});
  Finished f = w.lamina(words);
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.out, HasSubstr("row 0: "));
  EXPECT_THAT(f.out, HasSubstr("segment 1:\nu:ask 10;a:{+say 10;+}"));
  f = w.lamina(with(words, {"--color", "always"}));
  EXPECT_THAT(f.out, HasSubstr("\033[2mu:ask 10;a:\033[0m\033[32msay 10;\033[0m"));
  f = w.lamina(with(words, {"--json"}));
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.out, ContainsRegex("\"labels\":\\[(-100,)+115,97,121,32,49,48,59,-100"));
  EXPECT_THAT(f.out, HasSubstr("\"pieces\":[\"u\",\":\",\"a\",\"s\",\"k\""));
  w.expect({with(words, {"--validation"}), 5, {"has no validation data"}});
  EXPECT_FALSE(w.exists("out"));
}

// Training rows follow each other for ever, validation rows do not.
TEST(DataShow, EndsWithTheLastValidationRow) {
  const Workplace w;
  const std::vector<std::string> words = {
      "data", "show", "run.toml", "--set", "data.validation_fraction=0.5", "--validation"};
  Finished f = w.lamina(with(words, {"--json"}));
  ASSERT_EQ(f.code, 0) << f.err;
  const std::int64_t rows = JsonDocument::parse(f.out, "rows").root().at("num_rows").as_int64();
  f = w.lamina(with(words, {"-n", "3", "--skip", std::to_string(rows - 1)}));
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.out, HasSubstr("row " + std::to_string(rows - 1) + ": "));
  EXPECT_THAT(f.out, Not(HasSubstr("row " + std::to_string(rows) + ": ")));
  f = w.lamina(with(words, {"--skip", std::to_string(rows)}));
  EXPECT_EQ(f.code, 2);
  EXPECT_THAT(f.err, HasSubstr("error: --skip: got " + std::to_string(rows) + "; there are " +
                               std::to_string(rows) + " validation rows\n  use at most " +
                               std::to_string(rows - 1) + "\n"));
  f = w.lamina({"data", "show", "run.toml", "--skip", "100000", "-n", "1"});
  EXPECT_EQ(f.code, 0) << f.err;
  f = w.lamina({"data", "show", "run.toml", "--skip", "1099511627776", "-n", "2"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.out, HasSubstr("row 1099511627777: "));
  w.expect({{"data", "show", "run.toml", "--skip", "1099511627777"}, 2, {"--skip"}});
}

TEST(DataShow, MarksTheAnswersOfPairs) {
  Workplace w;
  w.write("pairs.jsonl", R"({"prompt": "q", "chosen": "yes", "rejected": "no"})");
  const std::vector<std::string> words = {"data",
                                          "show",
                                          "run.toml",
                                          "--set",
                                          "data.form=preference",
                                          "--set",
                                          "data.train=pairs.jsonl"};
  Finished f = w.lamina(words);
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.out, HasSubstr("segment 1, chosen:\n<256>q{+yes<257>+}\n"
                               "segment 2, rejected:\n<256>q{+no<257>+}\n"));
  EXPECT_THAT(f.err, HasSubstr("pairs.jsonl: 1 file, 50 B, 1 pair, "));
  f = w.lamina(with(words, {"--json"}));
  EXPECT_THAT(f.out, HasSubstr("\"answers\":[\"chosen\",\"rejected\"]"));
}

TEST(DataBuild, BuildsTheStoresOfTraining) {
  Workplace w;
  std::string text;
  for (int i = 0; i < 40000; ++i) text += "a line of text, number " + std::to_string(i) + "\n";
  w.write("big.txt", text);
  const std::vector<std::string> sets = {"run.toml", "--set", "data.train=big.txt", "--set",
                                         "data.document_separator=line"};
  Finished f = w.lamina(with({"data", "build"}, sets));
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.out, ContainsRegex("tokens/[0-9a-f]{32}: [0-9,]+ tokens of 40,000 documents, made "
                                   "now\n.* MiB in .*: .*B per second, .*B per second and core\n"));
  f = w.lamina(with(with({"data", "build"}, sets), {"--json"}));
  EXPECT_THAT(f.out, HasSubstr("\"made\": false"));
  EXPECT_EQ(stores(w, "tokens").size(), 1u);
  f = w.lamina(with({"train"}, sets));
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err, ContainsRegex("tokens in .*tokens/[0-9a-f]{32}\n"));
  const std::string stored = w.read("out/metrics.jsonl");
  f = w.lamina(with(with({"train"}, sets), {"--out", "other", "--set", "data.store=none"}));
  EXPECT_EQ(f.code, 0) << f.err;
  const auto first_loss = [](const std::string& metrics) {
    return metrics.substr(0, metrics.find("perf/"));
  };
  EXPECT_EQ(first_loss(stored), first_loss(w.read("other/metrics.jsonl")));
}

// Stores of ids have two or four bytes for each, by the model's vocabulary.
TEST(DataBuild, FilesOfIdsHaveTheVocabularyOfTheModel) {
  Workplace w;
  std::string ids;
  for (int i = 0; i < 4000; ++i) ids += {static_cast<char>(i % 256), static_cast<char>(i % 4)};
  w.write("a.bin", ids);
  const std::vector<std::string> sets = {
      "run.toml",         "--set", "data.train=a.bin",      "--set",
      "data.form=tokens", "--set", "model.vocab_size=70000"};
  Finished f = w.lamina(with({"data", "build"}, sets));
  EXPECT_EQ(f.code, 0) << f.err;
  ASSERT_EQ(stores(w, "tokens").size(), 1u);
  EXPECT_EQ(w.read("tokens/" + stores(w, "tokens")[0] + "/tokens").size(), 4u * 4000);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"data", "show"}, {"train"}}) {
    f = w.lamina(with(command, sets));
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_THAT(f.err, ContainsRegex("tokens in .*tokens/[0-9a-f]{32}\n"));
  }
  EXPECT_EQ(stores(w, "tokens").size(), 1u);
}

TEST(DataBuild, ContinuesAfterAKill) {
  Workplace w;
  std::string text;
  for (int i = 0; i < 400000; ++i) text += "a line of text, number " + std::to_string(i) + "\n";
  w.write("big.txt", text);
  const std::vector<std::string> words = {"data",
                                          "build",
                                          "run.toml",
                                          "--set",
                                          "data.train=big.txt",
                                          "--set",
                                          "data.document_separator=line",
                                          "-t",
                                          "1"};
  std::string line;
  for (const std::string& word : words) line += " '" + word + "'";
  for (int i = 0; i < 4; ++i)
    run_shell("timeout -s KILL 0.1" + std::to_string(i) + " " LAMINA_BUILD_DIR "/bin/lamina" + line,
              {.environment = {"LAMINA_PIN=0"}, .folder = w.path("").string()});
  Finished f = w.lamina(with(words, {"--json"}));
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.out, HasSubstr("\"documents\": 400000"));
  fs::rename(w.path("tokens"), w.path("first"));
  ASSERT_EQ(w.lamina(words).code, 0);
  const std::string store = stores(w, "tokens").at(0);
  EXPECT_EQ(w.read("first/" + store + "/tokens"), w.read("tokens/" + store + "/tokens"));
}

}  // namespace
}  // namespace lamina::testing
