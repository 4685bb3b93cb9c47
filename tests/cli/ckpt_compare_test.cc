// lamina ckpt diff and average: reports, written files and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>

#include "cli/trained_run.h"
#include "core/float16.h"
#include "core/json.h"
#include "io/manifest.h"
#include "io/weight_files.h"
#include "model/open.h"
#include "support/gguf_conversion.h"
#include "support/published_model.h"
#include "support/tensor_file.h"
#include "support/wrong_index.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;
using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;

std::string checkpoint(int step) {
  return fmt::format("{}/checkpoints/step-{:08}", trained_run(), step);
}

std::vector<float> values_of(const io::WeightFiles& files, std::string_view name) {
  const std::span<const std::byte> bytes = files.tensor(name).bytes;
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// Writes every tensor of `from` to `to`, changed by `change`.
void rewrite(const std::string& from, const std::string& to,
             const std::function<void(io::TensorSpec&, std::vector<float>&)>& change) {
  const io::WeightFiles files(from);
  std::vector<io::TensorSpec> specs;
  std::map<std::string, std::vector<float>> values;
  for (std::string_view name : files.names()) {
    io::TensorSpec spec{std::string(name), DType::f32, files.tensor(name).shape};
    std::vector<float> now = values_of(files, name);
    change(spec, now);
    if (now.empty()) continue;
    values[spec.name] = now;
    specs.push_back(spec);
  }
  io::write_safetensors(to, specs, {}, [&](const io::TensorSpec& spec) {
    return std::as_bytes(std::span<const float>(values.at(spec.name)));
  });
}

TEST(CkptDiff, ACheckpointIsTheSameAsItself) {
  const Finished f = ckpt({"diff", trained_run(), checkpoint(4)});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.out, HasSubstr("model: 21 identical, 0 not\n"));
  EXPECT_THAT(f.out, HasSubstr("optimizer: 42 identical, 0 not\n"));
}

TEST(CkptDiff, MeasuresTheChangeByTraining) {
  const Finished f = ckpt({"diff", checkpoint(2), checkpoint(4), "--json"});
  EXPECT_EQ(f.code, 3) << f.err;
  const JsonDocument json = JsonDocument::parse(f.out, "ckpt diff");
  EXPECT_FALSE(json.root().at("same").as_bool());
  const io::WeightFiles a(checkpoint(2)), b(checkpoint(4));
  EXPECT_EQ(json.root().at("model").at("identical").as_int64(), 0);
  for (JsonValue tensor : json.root().at("model").at("tensors").elements()) {
    const std::string name(tensor.at("name").as_string());
    const std::vector<float> x = values_of(a, name), y = values_of(b, name);
    double largest = 0, scale = 0;
    std::int64_t different = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
      scale = std::max(scale, std::abs(static_cast<double>(x[i])));
      different += x[i] != y[i];
    }
    EXPECT_EQ(tensor.at("different").as_int64(), different) << name;
    EXPECT_DOUBLE_EQ(tensor.at("max_abs").as_double(), largest) << name;
    EXPECT_DOUBLE_EQ(tensor.at("relative").as_double(), largest / scale) << name;
  }
}

TEST(CkptDiff, ComparesTheMovingAverages) {
  const TempDir folder;
  for (const char* name : {"a", "b"}) {
    std::filesystem::copy(checkpoint(4), folder / name, std::filesystem::copy_options::recursive);
    rewrite(checkpoint(4), std::string(folder / name) + "/ema.safetensors",
            [&](io::TensorSpec& spec, std::vector<float>& values) {
              if (name == std::string("b") && spec.name == "norm.weight") values[0] += 1;
            });
  }
  const Finished f = ckpt({"diff", folder / "a", folder / "b"});
  EXPECT_EQ(f.code, 3) << f.err;
  EXPECT_THAT(f.out, HasSubstr("model: 21 identical, 0 not\nema: 20 identical, 1 not\n"));
  EXPECT_THAT(ckpt({"diff", folder / "a", checkpoint(4)}).out,
              HasSubstr("ema: only in A, not compared"));
}

TEST(CkptDiff, NamesMissingAndChangedTensorsAndNaNs) {
  const TempDir folder;
  const std::string other = folder / "other.safetensors";
  rewrite(checkpoint(4), other, [](io::TensorSpec& spec, std::vector<float>& values) {
    if (spec.name == "norm.weight") spec.name = "norm.scale";
    if (spec.name == "embed.weight") values[3] = std::nanf("");
    if (spec.name == "layers.0.attention.wq.weight") spec.shape = {{16, 64}};
  });
  const Finished f = ckpt({"diff", checkpoint(4), other});
  EXPECT_EQ(f.code, 3) << f.err;
  EXPECT_THAT(f.out, HasSubstr("only in A  norm.weight  f32[32]"));
  EXPECT_THAT(f.out, HasSubstr("only in B  norm.scale  f32[32]"));
  EXPECT_THAT(f.out, HasSubstr("1 of 8256 differ, max |a - b| inf"));
  EXPECT_THAT(f.out,
              HasSubstr("shape      layers.0.attention.wq.weight  f32[32, 32] | f32[16, 64]"));
  EXPECT_THAT(f.out, HasSubstr("optimizer: only in A, not compared"));
}

TEST(CkptDiff, NamesOfDifferentKindsAreOneNote) {
  const TempDir folder;
  const std::string model = folder / "hf";
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", model}).code, 0);
  const Finished f = ckpt({"diff", model, trained_run()});
  EXPECT_EQ(f.code, 3) << f.err;
  EXPECT_THAT(f.out, HasSubstr("model: 0 identical, 42 not\n"
                               "  no name is in both: A has published names, and B the names of "
                               "lamina\n"
                               "  `lamina ckpt export " +
                               trained_run() +
                               " --to DIR` writes B under published names, to compare DIR\n"));
  EXPECT_THAT(f.out, Not(HasSubstr("only in A")));
  const Finished other = ckpt({"diff", trained_run(), model});
  EXPECT_THAT(other.out, HasSubstr("B has published names, and A the names of lamina\n"));
  EXPECT_THAT(other.out, HasSubstr(" writes A under published names, to compare DIR\n"));
}

TEST(CkptDiff, ComparesATypeWithAnother) {
  const TempDir folder;
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", folder / "f32"}).code, 0);
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", folder / "bf16", "--dtype", "bfloat16"}).code,
            0);
  const Finished f = ckpt({"diff", folder / "f32", folder / "bf16", "--json"});
  EXPECT_EQ(f.code, 3);
  const JsonDocument json = JsonDocument::parse(f.out, "ckpt diff");
  for (JsonValue tensor : json.root().at("model").at("tensors").elements())
    EXPECT_LE(tensor.at("relative").as_double(), 1.0 / 256) << tensor.at("name").as_string();
}

TEST(CkptDiff, ComparesAGgufFileInThePublishedOrderOfRows) {
  const TempDir folder;
  const std::string model = folder / "model";
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", model}).code, 0);
  lamina::testing::GgufConversion conversion = lamina::testing::as_llama(model);
  conversion.layers(lamina::testing::kFeedForwardNames);
  const std::string file = folder.write("model.gguf", conversion.gguf.bytes());
  for (const auto& [a, b] : {std::pair(file, model), std::pair(model, file)}) {
    const Finished f = ckpt({"diff", a, b});
    EXPECT_EQ(f.code, 0) << f.out << f.err;
    EXPECT_THAT(f.out, HasSubstr("model: 21 identical, 0 not\n"));
  }
  EXPECT_EQ(ckpt({"diff", file, file}).code, 0);

  ASSERT_EQ(ckpt({"export", checkpoint(2), "--to", folder / "earlier"}).code, 0);
  const Finished changed = ckpt({"diff", folder / "earlier", file});
  EXPECT_EQ(changed.code, 3) << changed.err;
  EXPECT_THAT(changed.out, HasSubstr("model: 0 identical, 21 not\n"));
}

TEST(CkptAverage, IsTheMeanOfEachTensorAndLoads) {
  const TempDir folder;
  const std::string mean = folder / "mean";
  const Finished f = ckpt({"average", checkpoint(2), checkpoint(4), checkpoint(4), "--to", mean});
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.out, HasSubstr("21 tensors, "));
  const io::WeightFiles a(checkpoint(2)), b(checkpoint(4)), found(mean);
  EXPECT_THAT(found.names(), ::testing::UnorderedElementsAreArray(a.names()));
  for (std::string_view name : a.names()) {
    const std::vector<float> x = values_of(a, name), y = values_of(b, name);
    std::vector<float> want(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      want[i] = static_cast<float>((static_cast<double>(x[i]) + 2 * static_cast<double>(y[i])) / 3);
    EXPECT_EQ(values_of(found, name), want) << name;
  }
  const Finished text = lamina_program({"decode", "-m", mean, "-p", "In", "-n", "4"});
  EXPECT_EQ(text.code, 0) << text.err;
  const Finished same = ckpt({"average", checkpoint(4), trained_run(), "--to", folder / "same"});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_THAT(same.err, HasSubstr("warning: " + trained_run() + ": is the same model as " +
                                  checkpoint(4) + ", and counts once more"));
  EXPECT_EQ(ckpt({"diff", checkpoint(4), folder / "same"}).code, 0);
}

// Copies the published model `from` to `to`; the final norm gets elements of `dtype`, all `value`.
template <class T>
void copy_with_norm(const std::string& from, const std::string& to, DType dtype, T value) {
  constexpr std::string_view kNorm = "model.norm.weight";
  fs::copy(from, to);
  const io::WeightFiles files(from);
  std::vector<io::TensorSpec> specs;
  for (std::string_view name : files.names())
    specs.push_back({std::string(name), name == kNorm ? dtype : files.tensor(name).dtype,
                     files.tensor(name).shape});
  const std::vector<T> norm(static_cast<std::size_t>(files.tensor(kNorm).shape.num_elements()),
                            value);
  io::write_safetensors(to + "/model.safetensors", specs, {}, [&](const io::TensorSpec& spec) {
    return spec.name == kNorm ? std::as_bytes(std::span(norm)) : files.tensor(spec.name).bytes;
  });
}

TEST(CkptAverage, RoundsOnceToTheTypeOfATensor) {
  const TempDir folder;
  ASSERT_EQ(ckpt({"export", checkpoint(4), "--to", folder / "hf"}).code, 0);
  const auto average = [&](DType dtype, const auto&... values) {
    const std::string to = folder / name(dtype);
    std::vector<std::string> words{"average"};
    (copy_with_norm(folder / "hf", words.emplace_back(fmt::format("{}-{}", to, words.size())),
                    dtype, values),
     ...);
    words.insert(words.end(), {"--to", to});
    const Finished f = ckpt(words);
    EXPECT_EQ(f.code, 0) << f.err;
    return io::WeightFiles(to);
  };
  // 1 + 2^-8 + 2^-32 is above the middle of 1 and 1 + 2^-7; in f32 it is that middle.
  const io::WeightFiles half = average(DType::bf16, to_bfloat16(2.0f), to_bfloat16(2.015625f),
                                       to_bfloat16(0x1p-30f), to_bfloat16(0.0f));
  bfloat16 rounded{};
  std::memcpy(&rounded, half.tensor("model.norm.weight").bytes.data(), sizeof rounded);
  EXPECT_EQ(to_float(rounded), 1.0078125f);
  const io::WeightFiles wide = average(DType::f64, 1.0, 1 + 0x1p-40);
  double mean = 0;
  std::memcpy(&mean, wide.tensor("model.norm.weight").bytes.data(), sizeof mean);
  EXPECT_EQ(mean, 1 + 0x1p-41);
}

TEST(CkptAverage, ReadsNewerCheckpointsIfTrainingRemovesTheFirst) {
  const TempDir folder;
  const std::vector<std::string> runs = {folder / "a", folder / "b"};
  for (const std::string& run : runs)
    for (const char* step : {"step-1", "step-2"})
      folder.write(fmt::format("{}/checkpoints/{}/{}", run, step, io::kManifestName), "{}");
  int calls = 0;
  model::while_training(runs, [&] {
    if (++calls > 1) return;
    fs::remove_all(runs[1] + "/checkpoints/step-2");
    throw std::runtime_error("a file is gone");
  });
  EXPECT_EQ(calls, 2);
}

TEST(CkptAverage, GivesUpAfterTenAttemptsAndAtOnceIfNothingWasRemoved) {
  int calls = 0;
  const auto fail = [&] {
    ++calls;
    throw std::runtime_error("a file is gone");
  };
  EXPECT_THROW(model::retry_if_removed(fail, [] { return true; }), std::runtime_error);
  EXPECT_EQ(calls, 10);
  EXPECT_THROW(model::retry_if_removed(fail, [] { return false; }), std::runtime_error);
  EXPECT_EQ(calls, 11);
}

TEST(CkptAverage, WarnsOfCheckpointsThatTrainingSetAside) {
  const TempDir folder;
  const std::string aside = folder / "step-00000004.set-aside";
  fs::copy(checkpoint(4), aside);
  const Finished f = ckpt({"average", checkpoint(2), aside, "--to", folder / "mean"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err, HasSubstr("warning: " + aside + ": training set this checkpoint aside"));
  EXPECT_THAT(f.err, Not(HasSubstr("is the same model as")));
}

TEST(CkptAverage, ValuesMustBeFinite) {
  const TempDir folder;
  fs::copy(checkpoint(4), folder / "other");
  rewrite(checkpoint(4), folder / "other/model.safetensors",
          [](io::TensorSpec& spec, std::vector<float>& values) {
            if (spec.name == "norm.weight") values[3] = std::nanf("");
          });
  fs::remove(folder / "other/manifest.json");
  fs::remove(folder / "other/optimizer.safetensors");
  const Finished f = ckpt({"average", checkpoint(4), folder / "other", "--to", folder / "mean"});
  EXPECT_EQ(f.code, 4) << f.err;
  EXPECT_THAT(f.err, HasSubstr("tensor 'norm.weight' has the value nan at [3]; expected finite "
                               "numbers"));
  EXPECT_FALSE(fs::exists(folder / "mean"));
}

// The mean has all tensors, also those that the text model does not use.
TEST(CkptAverage, ValuesOfEncodersMustBeFinite) {
  const TempDir folder;
  const auto model = [&](const std::string& name, float value) {
    const std::string to = lamina::testing::add_published_model(
        folder, LAMINA_SOURCE_DIR "/tests/golden/hf/qwen3_5_moe", name);
    fs::rename(to + "/model.safetensors", to + "/language.safetensors");
    lamina::testing::write_tensors(to + "/tower.safetensors",
                                   {{"model.visual.x.weight", {2, 2}, {1, 2, value, 4}}});
    folder.write(name + "/model.safetensors.index.json",
                 R"({"weight_map": {"model.language_model.norm.weight": "language.safetensors",
                                    "model.visual.x.weight": "tower.safetensors"}})");
    return to;
  };
  const std::string a = model("a", 1), b = model("b", 3);
  Finished f = ckpt({"average", a, b, "--to", folder / "mean"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(values_of(io::WeightFiles(folder / "mean"), "model.visual.x.weight"),
            (std::vector<float>{1, 2, 2, 4}));
  const std::string damaged = model("damaged", std::nanf(""));
  for (const auto& [left, right] : {std::pair(a, damaged), std::pair(damaged, a)}) {
    f = ckpt({"average", left, right, "--to", folder / "again"});
    EXPECT_EQ(f.code, 4) << f.err;
    EXPECT_THAT(f.err, HasSubstr("damaged/tower.safetensors: tensor 'model.visual.x.weight' has "
                                 "the value nan at [1, 0]; expected finite numbers"));
    EXPECT_FALSE(fs::exists(folder / "again"));
  }
  // Masks of attention are equal in all models.
  const float infinity = std::numeric_limits<float>::infinity();
  f = ckpt({"average", model("c", -infinity), model("d", -infinity), "--to", folder / "masked"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(values_of(io::WeightFiles(folder / "masked"), "model.visual.x.weight"),
            (std::vector<float>{1, 2, -infinity, 4}));
}

TEST(CkptAverage, RefusesOtherTensorsAndLeavesNothing) {
  const TempDir folder;
  fs::copy(checkpoint(4), folder / "other");
  rewrite(checkpoint(4), folder / "other/model.safetensors",
          [](io::TensorSpec& spec, std::vector<float>& values) {
            if (spec.name == "norm.weight") values.clear();
          });
  fs::remove(folder / "other/manifest.json");
  fs::remove(folder / "other/optimizer.safetensors");
  const Finished f = ckpt({"average", checkpoint(4), folder / "other", "--to", folder / "mean"});
  EXPECT_EQ(f.code, 4);
  EXPECT_THAT(f.err, HasSubstr("tensor 'norm.weight' is missing, but "));
  EXPECT_FALSE(fs::exists(folder / "mean"));
  EXPECT_EQ(ckpt({"average", checkpoint(4), "--to", folder / "mean"}).code, 2);
  EXPECT_EQ(ckpt({"average", checkpoint(4), checkpoint(2), "--to", folder.path()}).code, 2);
}

TEST(CkptAverage, BlamesAnIndexThatNamesTheWrongShard) {
  const TempDir folder;
  const auto exported = [&](const char* name) {
    EXPECT_EQ(ckpt({"export", trained_run(), "--to", folder / name}).code, 0);
    return folder / name;
  };
  const std::string right = exported("right"), wrong = exported("wrong"), less = exported("less");
  lamina::testing::write_wrong_index(
      wrong, [](std::string_view name) { return name == "model.norm.weight"; });
  lamina::testing::write_wrong_index(less, [](std::string_view) { return false; });
  rewrite(less, less + "/a.safetensors", [](io::TensorSpec& spec, std::vector<float>& values) {
    if (spec.name == "model.norm.weight") values.clear();
  });
  const auto says = [&](const std::string& a, const std::string& b, const std::string& text) {
    const Finished f = ckpt({"average", a, b, "--to", folder / "mean"});
    EXPECT_EQ(f.code, 4);
    EXPECT_THAT(f.err, HasSubstr(text));
    EXPECT_FALSE(fs::exists(folder / "mean"));
  };
  const std::string index = wrong +
                            ": tensor 'model.norm.weight' is missing\n"
                            "  the index assigns it to '" +
                            wrong + "/b.safetensors', but it is in '" + wrong + "/a.safetensors'";
  says(right, wrong, index);
  says(wrong, right, index);
  says(wrong, wrong, index);
  says(less, less, less + ": tensor 'model.norm.weight' is missing\n");
}

}  // namespace
}  // namespace lamina::cli
