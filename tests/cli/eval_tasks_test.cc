// lamina eval: windows, log probabilities, multiple choice and answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "cli/trained_run.h"
#include "core/json.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;

// A model that has memorised two sentences.
const std::string& schooled_run() {
  static const TempDir folder;
  static const std::string out = [] {
    std::string text;
    for (int i = 0; i < 200; ++i)
      text += "The sky is blue.\nThe sun is yellow.\n\nThe sun is yellow.\nThe sky is blue.\n\n";
    std::string run = tiny_run_file(folder / "out");
    const std::string data = LAMINA_SOURCE_DIR "/docs/glossary.md";
    run.replace(run.find(data), data.size(), folder.write("text.txt", text));
    const Finished result =
        lamina_program({"train", folder.write("run.toml", run), "--quiet", "--set",
                        "train.steps=150", "--set", "train.batch_size=8", "--set",
                        "train.microbatch_size=8", "--set", "train.eval_every_steps=0", "--set",
                        "checkpoint.every_steps=0", "--set", "data.document_separator=blank_line",
                        "--set", "schedule.warmup_steps=10", "--set", "optimizer.lr=0.01"});
    EXPECT_EQ(result.code, 0) << result.err;
    return folder / "out";
  }();
  return out;
}

Finished run_task(std::vector<std::string> more) {
  std::vector<std::string> words = {"eval", "-m", schooled_run(), "--dtype", "float32"};
  words.insert(words.end(), more.begin(), more.end());
  return lamina_program(words);
}

JsonDocument json_of(std::vector<std::string> more) {
  more.push_back("--json");
  const Finished result = run_task(std::move(more));
  EXPECT_EQ(result.code, 0) << result.err;
  return JsonDocument::parse(result.out, "eval");
}

std::vector<JsonDocument> objects_of(const std::string& path) {
  std::vector<JsonDocument> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) out.push_back(JsonDocument::parse(line, path));
  return out;
}

double sum_of(const JsonValue& numbers) {
  double sum = 0;
  for (const JsonValue number : numbers.elements()) sum += number.as_double();
  return sum;
}

constexpr const char* kText = "The sky is blue.\nThe sun is yellow.\nThe sky is yellow.\n";

TEST(Eval, AStrideOfTheWindowIsThePlainNumber) {
  const TempDir folder;
  const std::string text = folder.write("a.txt", kText);
  const auto loss = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--data", text, "--tokens", "16"});
    const JsonDocument json = json_of(more);
    EXPECT_EQ(json.root().at("tokens").as_int64(), 56);  // every byte and EOS
    return json.root().at("loss").as_double();
  };
  EXPECT_EQ(loss({"--stride", "16"}), loss({}));
  EXPECT_LT(loss({"--stride", "4"}), loss({}));  // each token has more context
}

TEST(Eval, LogProbabilitiesOfTokensAddUpToTheLoss) {
  const TempDir folder;
  const std::string text = folder.write("a.txt", kText);
  for (const char* stride : {"16", "5"}) {
    const JsonDocument json = json_of({"--data", text, "--tokens", "16", "--stride", stride,
                                       "--batch", "3", "--logprobs", folder / "p.jsonl"});
    double sum = 0;
    std::string spelled;
    std::int64_t next = 1;
    for (const JsonDocument& line : objects_of(folder / "p.jsonl")) {
      EXPECT_EQ(line.root().at("document").as_int64(), 0);
      EXPECT_EQ(line.root().at("first_token").as_int64(), next);
      next += static_cast<std::int64_t>(line.root().at("ids").size());
      sum += sum_of(line.root().at("logprobs"));
      for (const JsonValue token : line.root().at("tokens").elements())
        spelled += token.as_string();
    }
    EXPECT_EQ(spelled, kText);  // EOS has no bytes
    const double loss = json.root().at("loss").as_double();
    EXPECT_NEAR(sum, -56 * loss, 1e-4 * std::abs(sum));
  }
}

TEST(Eval, LogProbabilitiesOfARunsRowsAddUp) {
  const TempDir folder;
  const Finished result =
      lamina_program({"eval", schooled_run(), "--json", "--logprobs", folder / "p.jsonl"});
  ASSERT_EQ(result.code, 0) << result.err;
  const JsonDocument json = JsonDocument::parse(result.out, "eval");
  double sum = 0;
  for (const JsonDocument& line : objects_of(folder / "p.jsonl"))
    sum += sum_of(line.root().at("logprobs"));
  EXPECT_NEAR(sum,
              -json.root().at("loss").as_double() *
                  static_cast<double>(json.root().at("tokens").as_int64()),
              1e-4 * std::abs(sum));
}

constexpr const char* kQuestions =
    "{\"context\": \"The sky is\", \"choices\": [\"yellow\", \"blue\"], \"answer\": 1}\n"
    "\n"
    "{\"context\": \"The sun is\", \"choices\": [\"yellow\", \"blue\", \"x\"], \"answer\": 0}\n"
    "{\"context\": \"The sky is\", \"choices\": [\"blue\", \"yellow\"], \"answer\": 1}\n";

TEST(Eval, ChoosesLearnedAnswers) {
  const TempDir folder;
  const JsonDocument json =
      json_of({"--task", "choices", "--data", folder.write("q.jsonl", kQuestions), "--batch", "2"});
  EXPECT_EQ(json.root().at("task").as_string(), "choices");
  EXPECT_EQ(json.root().at("records").as_int64(), 3);
  EXPECT_NEAR(json.root().at("acc").as_double(), 2.0 / 3, 1e-12);  // the last answer is wrong
  EXPECT_NEAR(json.root().at("acc_norm").as_double(), 2.0 / 3, 1e-12);
  EXPECT_NEAR(json.root().at("acc_stderr").as_double(), 1.0 / 3, 1e-12);
  EXPECT_EQ(json.root().at("files").size(), 1u);
}

TEST(Eval, ChoicesAreATableForPeople) {
  const TempDir folder;
  const std::string a = folder.write("a.jsonl", kQuestions),
                    b = folder.write("b.jsonl", kQuestions);
  const Finished result = run_task({"--task", "choices", "--data", a, "--data", b});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("records  acc               acc_norm\n"));
  EXPECT_THAT(result.out, HasSubstr(a + "        3  0.6667 +- 0.3333  0.6667 +- 0.3333\n"));
  EXPECT_THAT(result.out, HasSubstr("        6  0.6667 +- 0.2108  0.6667 +- 0.2108\n"));
}

TEST(Eval, ASingleRecordHasNoStandardError) {
  const TempDir folder;
  const std::string one = folder.write(
      "q.jsonl", "{\"context\": \"The sky is\", \"choices\": [\"x\", \"blue\"], \"answer\": 1}\n");
  const JsonDocument json = json_of({"--task", "choices", "--data", one});
  EXPECT_EQ(json.root().at("acc").as_double(), 1);
  EXPECT_TRUE(json.root().at("acc_stderr").is_null());
  EXPECT_TRUE(json.root().at("files").element(0).at("acc_norm_stderr").is_null());
  EXPECT_THAT(run_task({"--task", "choices", "--data", one}).out,
              HasSubstr(one + "        1  1.0000            1.0000\n"));
}

// The sums of the log probabilities that decoding reports for the same tokens.
TEST(Eval, ChoicesHaveTheLogProbabilitiesOfDecoding) {
  const TempDir folder;
  json_of({"--task", "choices", "--data", folder.write("q.jsonl", kQuestions), "--logprobs",
           folder / "p.jsonl"});
  const Finished decoded =
      lamina_program({"decode", "-m", schooled_run(), "-p", "The sky is", "--temp", "0", "-n", "5",
                      "--dtype", "float32", "--logprobs", "1", "--json"});
  ASSERT_EQ(decoded.code, 0) << decoded.err;
  const JsonDocument json = JsonDocument::parse(decoded.out, "decode");
  EXPECT_EQ(json.root().at("text").as_string(), " blue");
  double sum = 0;
  for (const JsonValue token : json.root().at("logprobs").elements())
    sum += token.at("logprob").as_double();
  const JsonDocument question = std::move(objects_of(folder / "p.jsonl").front());
  EXPECT_EQ(question.root().at("likeliest").as_int64(), 1);
  const JsonValue blue = question.root().at("choices").element(1);
  EXPECT_EQ(blue.at("ids").size(), 5u);
  EXPECT_NEAR(sum_of(blue.at("logprobs")), sum, 1e-4);
}

// The short choice has the higher sum, the long choice the higher mean per character: each of its
// many bytes is certain.
TEST(Eval, LengthCountsInCharactersOnly) {
  const TempDir folder;
  json_of({"--task", "choices", "--logprobs", folder / "p.jsonl", "--data",
           folder.write("q.jsonl",
                        "{\"context\": \"The s\", \"choices\": [\"ky is blue.\", "
                        "\"u\"], \"answer\": 0}\n"),
           "--delimiter", ""});
  const JsonDocument line = std::move(objects_of(folder / "p.jsonl").front());
  const JsonValue choices = line.root().at("choices");
  const double sky = sum_of(choices.element(0).at("logprobs")) / 11;
  const double sun = sum_of(choices.element(1).at("logprobs")) / 1;
  EXPECT_EQ(line.root().at("likeliest_per_character").as_int64(), sky > sun ? 0 : 1);
  EXPECT_EQ(line.root().at("likeliest").as_int64(), 11 * sky > sun ? 0 : 1);
  EXPECT_GT(sky, sun);
}

TEST(Eval, GivesLearnedAnswers) {
  const TempDir folder;
  const std::string tasks =
      folder.write("t.jsonl",
                   "{\"prompt\": \"The sky is\", \"answer\": \"blue\", \"stop\": \".\"}\n"
                   "{\"prompt\": \"The sun is\", \"answer\": [\"YELLOW\", \"red\"], \"stop\": "
                   "[\".\", \"\\n\"]}\n");
  const auto share = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--task", "answers", "--data", tasks});
    return json_of(more).root().at("exact_match").as_double();
  };
  EXPECT_EQ(share({}), 0.5);
  EXPECT_EQ(share({"--ignore-case"}), 1);
  EXPECT_EQ(share({"--stop", "l"}), 0);  // " b", " ye"
  EXPECT_EQ(share({"--max-new-tokens", "2"}), 0);
}

TEST(Eval, ARecordMayHaveAnEmptyListOfStopStrings) {
  const TempDir folder;
  for (const char* stop : {"[]", "null"}) {
    const std::string tasks = folder.write(
        "t.jsonl",
        fmt::format("{{\"prompt\": \"The sky is\", \"answer\": \"blue\", \"stop\": {}}}\n", stop));
    const JsonDocument result = json_of({"--task", "answers", "--data", tasks, "--stop", "."});
    EXPECT_EQ(result.root().at("exact_match").as_double(), 1) << stop;
  }
}

// The model has 64 positions.
TEST(Eval, WarnsOfAnswersThatItsPositionsCut) {
  const TempDir folder;
  const std::string pair = "The sky is blue.\\nThe sun is yellow.\\n",
                    cut = "{\"prompt\": \"" + pair +
                          "The sky is blue.\\nThe sun\", \"answer\": \"u\"}\n",
                    short_one =
                        "{\"prompt\": \"The sky is\", \"answer\": \"blue\", \"stop\": \".\"}\n",
                    tasks = folder.write("t.jsonl", short_one + cut + cut);
  const auto run = [&](const char* max_new_tokens) {
    return run_task({"--task", "answers", "--data", tasks, "--max-new-tokens", max_new_tokens,
                     "--logprobs", folder / "p.jsonl"});
  };
  EXPECT_THAT(run("500").err, HasSubstr("warning: " + tasks +
                                        ":2: the answer is cut after 4 tokens: no position "
                                        "of the model is left (and 1 more)\n"));
  std::vector<std::string> ends;
  for (const JsonDocument& line : objects_of(folder / "p.jsonl"))
    ends.emplace_back(line.root().at("finish_reason").as_string());
  EXPECT_EQ(ends, (std::vector<std::string>{"stop", "context", "context"}));
  EXPECT_THAT(run("4").err, Not(HasSubstr("is cut")));
}

TEST(Eval, AnswersInAChatsForm) {
  const TempDir folder;
  const std::string form =
      folder.write("chat.jinja", "The {% for m in messages %}{{ m.content }} is{% endfor %}");
  const JsonDocument json =
      json_of({"--task", "answers", "--chat", "--chat-template", form, "--stop", ".", "--logprobs",
               folder / "p.jsonl", "--data",
               folder.write("t.jsonl", "{\"prompt\": \"sky\", \"answer\": \"blue\"}\n")});
  EXPECT_EQ(json.root().at("exact_match").as_double(), 1);
  const JsonDocument line = std::move(objects_of(folder / "p.jsonl").front());
  EXPECT_EQ(line.root().at("text").as_string(), " blue");
  EXPECT_EQ(line.root().at("logprobs").size(), line.root().at("ids").size());
}

struct TaskRefusal {
  std::vector<std::string> words;
  int code;
  std::string says;
};

TEST(Eval, NamesBadRecords) {
  const TempDir folder;
  const std::string good = "{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 0}\n";
  const auto with = [&](const char* name, const std::string& bad) {
    return folder.write(name, good + bad + "\n");
  };
  const std::string broken = with("broken.jsonl", "{\"context\": "),
                    answer = with("answer.jsonl",
                                  "{\"context\": \"a\", \"choices\": [\"b\", "
                                  "\"c\"], \"answer\": 2}"),
                    empty = with("empty.jsonl",
                                 "{\"context\": \"a\", \"choices\": [\"b\", \"\"], \"answer\": 1}"),
                    missing = with("missing.jsonl", "{\"context\": \"a\", \"answer\": 1}"),
                    longer = with("long.jsonl", "{\"context\": \"" + std::string(80, 'a') +
                                                    "\", \"choices\": [\"b\", \"c\"], "
                                                    "\"answer\": 1}"),
                    nothing = folder.write("nothing.jsonl", "\n");
  const TaskRefusal cases[] = {
      {{"choices", broken},
       5,
       "error: " + broken +
           ":2: JSON is truncated after 12 bytes\n"
           "  a record is {\"context\": \"2+2 is\", \"choices\": [\"4\", \"5\"], \"answer\": 0}, "
           "one per line\n"},
      {{"choices", answer},
       5,
       "error: " + answer + ":2: 'answer' must be the index of a choice, 0 to 1, got 2\n"},
      {{"choices", empty}, 5, "error: " + empty + ":2: choice 1 is empty; give a text\n"},
      {{"choices", missing},
       5,
       "error: " + missing +
           ":2: the object has no 'choices'; it has context, answer\n"
           "  a record is {\"context\": \"2+2 is\", \"choices\": [\"4\", \"5\"], \"answer\": 0}, "
           "one per line\n"},
      {{"choices", longer},
       5,
       "error: " + longer +
           ":2: choice 0 has 83 tokens with its context; the model supports at most 65\n"},
      {{"choices", nothing}, 5, "error: " + nothing + ": has no record; nothing to evaluate\n"},
      {{"answers", answer},
       5,
       "error: " + answer +
           ":1: the object has no 'prompt'; it has context, choices, answer\n"
           "  a record is {\"prompt\": \"2+2 is\", \"answer\": \"4\"}, one per line\n"},
  };
  for (const TaskRefusal& c : cases) {
    const Finished result = run_task({"--task", c.words[0], "--data", c.words[1]});
    EXPECT_EQ(result.code, c.code) << c.says;
    EXPECT_THAT(result.err, ::testing::StartsWith(c.says));
    EXPECT_EQ(result.out, "");
  }
}

// The last choice has 35 tokens, whose row would be padded to 64.
TEST(Eval, LearnedPositionsLimitEveryTask) {
  const TempDir folder;
  const Finished trained =
      train_tiny(folder, "out",
                 {"--quiet", "--set", "model.trainable_position_size=40", "--set",
                  "train.sample_every_steps=4", "--set", "train.sample_prompts=[\"a\"]", "--set",
                  "train.sample_tokens=100"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", "-m", folder / "out", "--data"});
    return lamina_program(more);
  };
  const std::string text = folder.write("a.txt", kText);
  const Finished windows = run({text});
  EXPECT_EQ(windows.code, 0) << windows.err;
  EXPECT_THAT(windows.out, HasSubstr("56 tokens, 55 bytes, 2 rows of 40\n"));
  const Finished refused = run({text, "--tokens", "41"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err, "error: --tokens: got 41; the model supports at most 40\n");
  const auto question = [&](std::size_t length) {
    return folder.write("q.jsonl", "{\"context\": \"" + std::string(length, 'a') +
                                       "\", \"choices\": [\"b\", \"c\"], \"answer\": 1}\n");
  };
  const Finished choices = run({question(32), "--task", "choices"});
  EXPECT_EQ(choices.code, 0) << choices.err;
  const Finished longer = run({question(80), "--task", "choices"});
  EXPECT_EQ(longer.code, 5);
  EXPECT_THAT(longer.err, HasSubstr("q.jsonl:1: choice 0 has 83 tokens with its context; the model "
                                    "supports at most 41\n"));
  const Finished answers = run(
      {folder.write("t.jsonl", "{\"prompt\": \"a\", \"answer\": \"b\"}\n"), "--task", "answers"});
  EXPECT_EQ(answers.code, 0) << answers.err;
}

// Training has rows of 128 tokens, four times the original positions.
TEST(Eval, DynamicScalingHasNoLongestWindow) {
  const TempDir folder;
  const Finished trained =
      train_tiny(folder, "out",
                 {"--quiet", "--set", "model.max_position_embeddings=32", "--set",
                  "model.rope_scaling.rope_type=dynamic", "--set", "model.rope_scaling.factor=2",
                  "--set", "data.sequence_length=128"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string text = folder.write("a.txt", std::string(kText) + kText + kText);
  const Finished result =
      lamina_program({"eval", "-m", folder / "out", "--data", text, "--tokens", "128"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 rows of 128\n"));
  const Finished decoded = lamina_program(
      {"decode", "-m", folder / "out", "-p", "a", "-n", "100", "--ignore-eos", "--json"});
  EXPECT_THAT(decoded.out, HasSubstr("\"finish_reason\": \"length\""));
  EXPECT_THAT(decoded.err, Not(HasSubstr("warning: ")));
}

TEST(Eval, RefusesOptionsOfOtherTasks) {
  const TempDir folder;
  const std::string text = folder.write("a.txt", kText);
  const TaskRefusal cases[] = {
      {{"--task", "choices", "--data", text, "--stride", "4"},
       2,
       "error: --stride: cannot be used with --task choices; it belongs to --task text\n"
       "  remove it, or add --task text\n"},
      {{"--data", text, "--stop", "."},
       2,
       "error: --stop: cannot be used with --task text; it belongs to --task answers\n"
       "  remove it, or add --task answers\n"},
      {{"--data", text, "--tokens", "8", "--stride", "9"},
       2,
       "error: --stride: got 9; windows of 8 tokens at a larger distance would skip tokens\n  give "
       "at most 8\n"},
      {{"--stride", "9"},
       2,
       "error: --stride: needs --data; the rows of a run's validation data are fixed\n"},
      {{"--task", "answers"},
       2,
       "error: eval: --task answers needs its records; give them with --data FILE.jsonl\n"},
      {{"--task", "answers", "--data", text, "--chat-template", "x"},
       2,
       "error: --chat-template: needs --chat; add it\n"},
      {{"--task", "choices", "--data", text, "--chat", "--chat-template", folder / "none"},
       5,
       "error: " + (folder / "none") +
           ": cannot be read: no such file or directory\n"
           "  check the path and its permissions\n"},
  };
  for (const TaskRefusal& c : cases) {
    const Finished result = run_task(c.words);
    EXPECT_EQ(result.code, c.code) << c.says;
    EXPECT_EQ(result.err, c.says);
  }
}

}  // namespace
}  // namespace lamina::cli
