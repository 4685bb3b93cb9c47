// Prediction layers of config.json that the files lack: skipped, or initialised by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "model/export.h"
#include "model/load.h"
#include "model/merge.h"
#include "support/expect_error.h"
#include "support/published_model.h"
#include "support/run_of_file.h"
#include "support/wrong_index.h"
#include "weights/publish/hf_export.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

const char* const kGolden = "deepseek_v3_mtp";  // two layers and a prediction layer

// Without the tensors of layer 2, as transformers saves it.
std::string add_without_predictions(const TempDir& folder) {
  const std::string out = add_golden_model(folder, kGolden);
  fs::rename(out + "/model.safetensors", folder / "whole.safetensors");
  const io::WeightFiles files(folder / "whole.safetensors");
  std::vector<io::TensorSpec> specs;
  for (std::string_view name : files.names())
    if (!name.starts_with("model.layers.2."))
      specs.push_back({std::string(name), files.tensor(name).dtype, files.tensor(name).shape});
  io::write_weight_files(out, specs,
                         [&](const io::TensorSpec& spec) { return files.tensor(spec.name).bytes; });
  return out;
}

std::string write_predicting_run(const TempDir& folder, const std::string& train = "",
                                 const std::string& more = "") {
  folder.write("text.txt", text_of_words(40));
  return folder.write("run.toml", more + "[data]\ntrain = [\"text.txt\"]\nsequence_length = 12\n" +
                                      "[train]\nfrom = \"model\"\nsteps = 2\nbatch_size = 2\n" +
                                      train + "[optimizer]\nlr = 1e-2\n[run]\nout = \"out\"\n");
}

std::vector<std::string> names_in(const std::string& directory) {
  const io::WeightFiles files(directory);
  return {files.names().begin(), files.names().end()};
}

void expect_one_note(const std::string& messages, const std::string& from) {
  const std::string note = "prediction layers, which are omitted";
  const std::size_t first = messages.find(from + ": has no weights for its 1 " + note);
  ASSERT_NE(first, messages.npos) << messages;
  EXPECT_EQ(messages.find(note), messages.rfind(note)) << messages;
}

TEST(MissingPredictions, BeginNoRunUnlessTheyAreNamed) {
  const TempDir folder;
  const std::string from = add_without_predictions(folder);
  const std::string file = write_predicting_run(folder);
  EXPECT_ERROR_SAYS(RunOfFile{file}, ExitCode::checkpoint, "train.from: " + from + " lacks ")
  EXPECT_ERROR_SAYS(RunOfFile{file}, ExitCode::checkpoint, "'mtp.0.")
  EXPECT_ERROR_SAYS(RunOfFile{file}, ExitCode::checkpoint,
                    "model.num_nextn_predict_layers = 0 omits its prediction layers; or name "
                    "them in train.fresh, to start fresh")
}

TEST(MissingPredictions, AreNotOmittedIfTheIndexNamesThem) {
  const TempDir folder;
  const std::string from = add_golden_model(folder, kGolden);
  write_wrong_index(from,
                    [](std::string_view name) { return name.starts_with("model.layers.2."); });
  const std::string blamed = "but it is in '" + from + "/a.safetensors': download the index again";
  EXPECT_ERROR_SAYS(model::open(from, built_plugins()), ExitCode::checkpoint, blamed)
  EXPECT_ERROR_SAYS(
      model::export_model(from, folder / "export", {}, built_plugins(), cpu::cpu_backend()),
      ExitCode::checkpoint, blamed)
  EXPECT_ERROR_SAYS(RunOfFile(write_predicting_run(folder, "fresh = [\"mtp.*\"]\n")),
                    ExitCode::checkpoint, blamed)
}

TEST(MissingPredictions, StartFreshWhereTheyAreNamed) {
  const TempDir folder;
  add_without_predictions(folder);
  RunOfFile run(write_predicting_run(folder, "fresh = [\"mtp.*\"]\n"));
  EXPECT_EQ(run.training.model->mtp_depth(), 1);
  for (const train::StepResult& step : run.steps()) EXPECT_GT(step.mean_of("mtp_loss"), 0.0);
}

TEST(MissingPredictions, AreLeftOutOfRunsAndTheirExports) {
  const TempDir folder;
  const std::string from = add_without_predictions(folder);
  RunOfFile run(write_predicting_run(folder, "", "[model]\nnum_nextn_predict_layers = 0\n"));
  EXPECT_EQ(run.training.model->mtp_depth(), 0);
  run.train();
  const model::OpenedModel opened = model::open(run.checkpoint(), built_plugins());
  weights::export_to_hf(*opened.model, run.checkpoint(), folder / "export", {});
  EXPECT_THAT(names_in(folder / "export"), ::testing::UnorderedElementsAreArray(names_in(from)));
  const io::HfDirectory exported(folder / "export");
  EXPECT_EQ(exported.config().at("num_nextn_predict_layers").as_int64(), 0);
}

TEST(MissingPredictions, ThatAreThereCanBeLeftOutToo) {
  const TempDir folder;
  add_golden_model(folder, kGolden);
  RunOfFile run(write_predicting_run(folder, "", "[model]\nnum_nextn_predict_layers = 0\n"));
  run.train();
  for (const std::string& name : names_in(run.checkpoint() + "/model.safetensors"))
    EXPECT_FALSE(name.starts_with("mtp.")) << name;
}

TEST(MissingPredictions, AreNoPartOfTheModelThatIsOpened) {
  const TempDir folder;
  const std::string from = add_without_predictions(folder);
  EXPECT_EQ(model::open(from, built_plugins()).model->mtp_depth(), 0);
  const model::Loaded without = model::load(from, built_plugins(), DType::f32, cpu::cpu_backend());
  const std::string whole = (golden_dir() / "hf" / kGolden).string();
  const model::Loaded with = model::load(whole, built_plugins(), DType::f32, cpu::cpu_backend());
  EXPECT_EQ(with.model().mtp_depth(), 1);
  const Rows rows = random_rows(with.model(), 2, 7);
  EXPECT_EQ(forward(without.model(), without.weights.pointers(), rows),
            forward(with.model(), with.weights.pointers(), rows));
}

TEST(MissingPredictions, AreNoPartOfAMergedModel) {
  const TempDir folder;
  const std::string from = add_without_predictions(folder);
  RunOfFile run(write_predicting_run(folder, "",
                                     "[model]\nnum_nextn_predict_layers = 0\n[lora]\nrank = 2\n"
                                     "target_modules = [\"o_proj\"]\n"));
  run.train();
  fs::create_directories(folder / "adapter");
  for (const char* name : {"adapter_config.json", "adapter_model.safetensors"})
    fs::copy_file(fs::path(run.checkpoint()) / name, fs::path(folder / "adapter") / name);
  ::testing::internal::CaptureStderr();
  model::merge_to_hf(from, {.adapter = folder / "adapter"}, folder / "merged", {}, built_plugins(),
                     cpu::cpu_backend());
  expect_one_note(::testing::internal::GetCapturedStderr(), from);
  EXPECT_THAT(names_in(folder / "merged"), ::testing::UnorderedElementsAreArray(names_in(from)));
}

// Once per parameter, the search for the folder of the layers took minutes.
TEST(MissingPredictions, ManyOtherNamesTakeSeconds) {
  const TempDir folder;
  const std::string path = add_golden_model(folder, kGolden);
  std::string config = folder.read("model/config.json");
  const std::string layers = "\"num_hidden_layers\": 2";
  ASSERT_NE(config.find(layers), config.npos);
  folder.write("model/config.json",
               config.replace(config.find(layers), layers.size(), "\"num_hidden_layers\": 61"));
  std::vector<io::TensorSpec> specs;
  for (int i = 0; i < 20'000; ++i) specs.push_back({fmt::format("x{}", i), DType::f32, Shape{0}});
  io::write_weight_files(path, specs,
                         [](const io::TensorSpec&) { return std::span<const std::byte>(); });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(model::open(path, built_plugins()).model->mtp_depth(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(MissingPredictions, AreNotedOnceByAnExport) {
  const TempDir folder;
  const std::string from = add_without_predictions(folder);
  ::testing::internal::CaptureStderr();
  model::export_model(from, folder / "export", {}, built_plugins(), cpu::cpu_backend());
  expect_one_note(::testing::internal::GetCapturedStderr(), from);
}

}  // namespace
}  // namespace lamina::testing
