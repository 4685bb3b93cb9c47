// The validation loss of a run: its rows, and equality with `lamina eval`.
#include <fmt/format.h>

#include <sstream>

#include "core/json.h"
#include "errors/workplace.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

using Settings = std::vector<std::string>;

// A run with a very small learning rate: settings of its steps change no weight.
double validation_loss(const Workplace& w, const std::string& out, const Settings& settings) {
  std::vector<std::string> words = {"train", "run.toml", "--quiet", "--out", out};
  for (const char* set : {"train.steps=1", "optimizer.lr=1e-9", "train.batch_size=8"})
    words.insert(words.end(), {"--set", set});
  for (const std::string& set : settings) words.insert(words.end(), {"--set", set});
  const Finished f = w.lamina(words);
  EXPECT_EQ(f.code, 0) << f.err;
  std::istringstream metrics(w.read(out + "/metrics.jsonl"));
  double loss = 0;
  for (std::string line; std::getline(metrics, line);) {
    const JsonDocument record = JsonDocument::parse(line, "metrics", {});
    if (const JsonValue value = record.root().find("eval/loss")) loss = value.as_double();
  }
  return loss;
}

double eval_loss(const Workplace& w, const std::string& run, const Settings& more = {}) {
  std::vector<std::string> words = {"eval", run, "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const Finished f = w.lamina(words);
  EXPECT_EQ(f.code, 0) << f.err;
  return f.code == 0 ? JsonDocument::parse(f.out, "eval", {}).root().at("loss").as_double() : 0;
}

std::string texts(int count) {
  std::string out;
  for (int i = 0; i < count; ++i)
    out += fmt::format(
        "{{\"text\": \"{}\"}}\n",
        std::string(static_cast<std::size_t>(9 + i * 7 % 14), static_cast<char>('a' + i % 20)));
  return out;
}

class Validation : public ::testing::Test {
 protected:
  Validation() {
    w.write("v.jsonl", texts(3));
    w.write("many.jsonl", texts(61));
  }
  Settings held_out(const std::string& file, int microbatch) const {
    return {fmt::format("data.train=[\"{}\"]", "many.jsonl"),
            fmt::format("data.validation=[\"{}\"]", file), "data.form=\"jsonl\"", "data.pack=false",
            fmt::format("train.microbatch_size={}", microbatch)};
  }
  Workplace w;
};

TEST_F(Validation, CountsEachHeldOutRowOnceForEveryMicrobatch) {
  for (const char* file : {"v.jsonl", "many.jsonl"}) {
    SCOPED_TRACE(file);
    const double one = validation_loss(w, std::string(file) + "1", held_out(file, 1));
    EXPECT_GT(one, 1);
    for (int microbatch : {2, 4, 8})
      EXPECT_NEAR(
          validation_loss(w, fmt::format("{}{}", file, microbatch), held_out(file, microbatch)),
          one, 1e-9 * one)
          << microbatch;
  }
}

TEST_F(Validation, EqualsEval) {
  for (const char* file : {"v.jsonl", "many.jsonl"}) {
    const double loss = validation_loss(w, file + std::string(".out"), held_out(file, 8));
    for (const char* batch : {"1", "3", "64"})
      EXPECT_NEAR(eval_loss(w, file + std::string(".out"), {"--batch", batch}), loss, 1e-9 * loss);
  }
}

TEST_F(Validation, EqualsEvalWithAMixtureAndAFraction) {
  const double loss =
      validation_loss(w, "mixture",
                      {"data.train=[\"text.txt\", \"many.jsonl\"]", "data.weights=[3, 1]",
                       "data.validation_fraction=0.3", "train.microbatch_size=2"});
  EXPECT_NEAR(eval_loss(w, "mixture"), loss, 1e-9 * loss);
}

// The first eval_batches * batch_size rows.
TEST_F(Validation, EvalBatchesHaveTheBatchSize) {
  w.write("eight.jsonl", texts(8));
  const double eight = validation_loss(w, "eight", held_out("eight.jsonl", 8));
  for (int microbatch : {1, 2, 8}) {
    Settings settings = held_out("many.jsonl", microbatch);
    settings.push_back("train.eval_batches=1");
    EXPECT_NEAR(validation_loss(w, fmt::format("one{}", microbatch), settings), eight, 1e-9 * eight)
        << microbatch;
    settings.back() = "train.eval_batches=100";
    EXPECT_NEAR(validation_loss(w, fmt::format("all{}", microbatch), settings),
                eval_loss(w, fmt::format("one{}", microbatch)), 1e-6)
        << microbatch;
  }
}

TEST_F(Validation, CountsEachPairOnce) {
  std::string pairs;
  for (int i = 0; i < 5; ++i)
    pairs += fmt::format("{{\"prompt\": \"{}\", \"chosen\": \"yes{}\", \"rejected\": \"no\"}}\n",
                         std::string(static_cast<std::size_t>(1 + i), 'q'), i);
  w.write("pairs.jsonl", pairs);
  const auto loss = [&](int microbatch) {
    return validation_loss(
        w, fmt::format("pairs{}", microbatch),
        {"data.train=[\"pairs.jsonl\"]", "data.validation=[\"pairs.jsonl\"]",
         "data.form=\"preference\"", "data.pack=false", "preference.loss=\"orpo\"",
         fmt::format("train.microbatch_size={}", microbatch)});
  };
  const double one = loss(1);
  EXPECT_GT(one, 0);
  for (int microbatch : {2, 4, 8}) EXPECT_NEAR(loss(microbatch), one, 1e-6 * one) << microbatch;
}

// The weights overflow in the first update, which is also the last.
const Settings kOverflow = {"optimizer.lr=3e38", "optimizer.weight_decay=1000",
                            "schedule.kind=\"constant\"", "train.steps=1"};

std::vector<std::string> train_with(Settings settings, const Settings& more = {}) {
  settings.insert(settings.end(), more.begin(), more.end());
  std::vector<std::string> words = {"train", "run.toml", "--quiet"};
  for (const std::string& set : settings) words.insert(words.end(), {"--set", set});
  return words;
}

TEST(NonFiniteEnd, WeightsThatTheLastUpdateSpoiltAreNoCheckpoint) {
  for (const char* async : {"checkpoint.async=true", "checkpoint.async=false"}) {
    const Workplace w;
    w.expect({train_with(kOverflow, {async}),
              3,
              {"error: step 1: after the update the weight '", " at element ",
               "no checkpoint of this step is written; earlier ones stay"}});
    EXPECT_EQ(w.lamina({"ckpt", "ls", "out"}).out.find("step-"), std::string::npos);
  }
}

TEST(NonFiniteEnd, AValidationLossOfNaNIsAnError) {
  const Workplace w;
  w.expect({train_with(kOverflow, {"data.validation_fraction=0.2"}),
            3,
            {"error: step 1: the validation loss is ", "after the update the weight '",
             "no checkpoint of this step is written; earlier ones stay"}});
  EXPECT_EQ(w.read("out/metrics.jsonl").find("eval/loss"), std::string::npos);
}

TEST(NonFiniteEnd, NumbersThatFloat32DoesNotHoldAreRefused) {
  const Workplace w;
  for (const char* key : {"optimizer.eps=1e-50", "optimizer.eps_root=1e-39",
                          "model.rms_norm_eps=1e-40", "optimizer.lr=1e-46", "lora.alpha=1e-300"})
    w.expect({train_with({key}),
              2,
              {std::string(key).substr(0, std::string(key).find('=')),
               ", which is outside the range of float32; the least magnitude is 1.18e-38"}});
  w.expect({train_with({"optimizer.lr=1e39"}),
            2,
            {"'optimizer.lr' must be a number, greater than 0, got 1e39, which is outside the "
             "range of float32; the largest magnitude is 3.4e+38"}});
  for (const char* key : {"model.attention_dropout_rate=0.99999999999", "lora.dropout=0.99999999",
                          "optimizer.beta2=0.99999999"})
    w.expect({train_with({key}),
              2,
              {std::string(key).substr(0, std::string(key).find('=')),
               "less than 1, got 0.99999999", ", which is 1 in float32"}});
  EXPECT_FALSE(w.exists("out"));
  EXPECT_EQ(w.lamina(train_with({"optimizer.eps=1.2e-38"})).code, 0);
}

}  // namespace
}  // namespace lamina::testing
