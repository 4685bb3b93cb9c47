// The run directory after a step that is not finite, or that is skipped as a spike.
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/json.h"
#include "errors/workplace.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

std::string only_file(const Workplace& w, const std::string& prefix) {
  std::string found;
  for (const auto& entry : fs::directory_iterator(w.path("out")))
    if (entry.path().filename().string().starts_with(prefix)) {
      EXPECT_EQ(found, "");
      found = "out/" + entry.path().filename().string();
    }
  return found;
}

TEST(BadStep, ARateThatOverflowsSaysWhereAndLeavesAFile) {
  Workplace w;
  const Finished f = w.lamina({"train", "run.toml", "--quiet", "--set", "optimizer.lr=1e30",
                               "--set", "train.clip_norm=0", "--set", "train.microbatch_size=2",
                               "--set", "checkpoint.every_steps=1"});
  EXPECT_EQ(f.code, 3) << f.err;
  const std::string file = only_file(w, "non-finite-step-");
  ASSERT_NE(file, "") << f.err;
  EXPECT_THAT(f.err, ContainsRegex("the first such value comes from [a-z_]+"));
  EXPECT_THAT(f.err, HasSubstr("`lamina report out` shows the rows that were read, from " + file));
  const JsonDocument json = JsonDocument::parse(w.read(file), file);
  EXPECT_GE(json.root().at("step").as_int64(), 1);
  EXPECT_NE(json.root().at("origin").at("op").as_string(), "");
  EXPECT_GE(json.root().at("origin").at("not_finite").as_int64(), 1);
  ASSERT_EQ(json.root().at("rows").size(), 4u);
  const JsonValue last = json.root().at("rows").element(3);
  EXPECT_EQ(last.at("microbatch").as_int64(), 1);
  EXPECT_EQ(last.at("tokens").size(), 24u);
  const std::string text(last.at("text").as_string());
  EXPECT_THAT(text, ContainsRegex("line|word|beginning"));
  // No data is lost: the checkpoint before the step is complete, and the report reads the metrics.
  EXPECT_TRUE(w.exists("out/checkpoints/step-00000001"));
  EXPECT_EQ(w.lamina({"ckpt", "verify", "out"}).code, 0);
  const Finished report = w.lamina({"report", "out"});
  EXPECT_EQ(report.code, 0) << report.err;
  const std::string page = w.read("out/report.html");
  EXPECT_THAT(page, HasSubstr(": not finite</h3>"));
  EXPECT_THAT(page, HasSubstr("<th>began with</th>"));
  EXPECT_THAT(page, HasSubstr(text.substr(text.find_first_not_of(" \n"), 8)));
}

// Sets a value of a tensor in a safetensors file to infinity.
void make_infinite(const Workplace& w, const std::string& file, const std::string& tensor,
                   std::size_t element) {
  std::string bytes = w.read(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const JsonDocument header = JsonDocument::parse(bytes.substr(sizeof length, length), file);
  const JsonValue entry = header.root().at(tensor);
  ASSERT_EQ(entry.at("dtype").as_string(), "F32");
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(bytes.data() + sizeof length + length +
                  entry.at("data_offsets").element(0).as_uint64() + element * sizeof infinity,
              &infinity, sizeof infinity);
  w.write(file, bytes);
}

TEST(BadStep, AWeightThatIsInfiniteFromTheStartIsNamedWithTheOpThatReadsIt) {
  Workplace w;
  w.train();
  ASSERT_EQ(w.lamina({"ckpt", "export", "out", "--to", "model"}).code, 0);
  make_infinite(w, "model/model.safetensors", "model.layers.1.mlp.down_proj.weight", 30);
  const std::vector<std::string> words = {
      "train", "run.toml", "--quiet", "--set", "train.from=model", "--out", "tuned"};
  const Finished f = w.lamina(words);
  EXPECT_EQ(f.code, 3) << f.err;
  EXPECT_THAT(f.err, HasSubstr("the weight 'layers.1.feed_forward.w2.weight' is inf at element 30 "
                               "of [16, 24]; no update mends it, so train from other weights"));
  // The shape is [16, 24] in the file and in the run: element 30 is in row 1.
  EXPECT_THAT(f.err, HasSubstr("before this step the weight 'layers.1.feed_forward.w2.weight' is "
                               "inf at element 30 of [16, 24]"));
  EXPECT_THAT(
      f.err, ContainsRegex(
                 "the first such value comes from linear in layer 1, llama2/feed_forward.w2, built "
                 "at .*model\\.cc:[0-9]+: element [0-9]+ of f32\\[4, 24, 16\\] "
                 "is inf, [0-9]+ in all are not finite"));
  w.lamina({"report", "tuned"});
  EXPECT_THAT(w.read("tuned/report.html"),
              HasSubstr("<th>weight before the step</th><td>'layers.1"));
}

TEST(BadStep, AFileThatIsDamagedIsAnErrorOfTheReport) {
  Workplace w;
  w.train();
  w.write("out/spike-step-00000002.json", "{\"step\": 2");
  w.expect({{"report", "out"}, 4, {"spike-step-00000002.json"}});
}

TEST(BadStep, ASpikeThatIsLeftOutLeavesAFile) {
  Workplace w;
  const Finished f = w.lamina({"train", "run.toml", "--quiet", "--set", "train.skip_spikes=0.05",
                               "--set", "train.spike_window=2", "--set", "train.steps=12"});
  EXPECT_EQ(f.code, 0) << f.err;
  const std::string metrics = w.read("out/metrics.jsonl");
  ASSERT_THAT(metrics, HasSubstr("\"train/skipped_steps\":1"));
  EXPECT_THAT(metrics, Not(HasSubstr("\"train/lr\":0.0,")));  // it has the rate of the schedule
  int found = 0;
  for (const auto& entry : fs::directory_iterator(w.path("out")))
    found += entry.path().filename().string().starts_with("spike-step-");
  EXPECT_GE(found, 1);
  EXPECT_EQ(only_file(w, "non-finite-step-"), "");
  EXPECT_EQ(w.lamina({"report", "out"}).code, 0);
  EXPECT_THAT(w.read("out/report.html"), HasSubstr(": skipped as a spike</h3>"));
}

}  // namespace
}  // namespace lamina::testing
