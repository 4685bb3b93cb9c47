// --quantize: formats on the fly, their bytes in plan and bench, the memory of loading, refusals.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/trained_run.h"
#include "core/json.h"
#include "io/weight_files.h"
#include "support/models.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;
using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::HasSubstr;

// Which token is likeliest may not change, but the log probability of a token does.
TEST(Quantize, ChangesTheLogitsOfEveryFormat) {
  const auto decoded = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"decode",  "-m",     trained_run(), "--ids",
                                      "1,2,3,4", "-n",     "1",           "--temp",
                                      "0",       "--json", "--logprobs",  "1"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished result = lamina_program(words);
    EXPECT_EQ(result.code, 0) << result.err;
    double out = 0;
    const JsonDocument json = JsonDocument::parse(result.out, "decode");
    for (JsonValue token : json.root().at("logprobs").elements())
      out = token.at("logprob").as_double();
    return out;
  };
  const double plain = decoded({});
  for (const char* format : {"int8", "int4", "int4-g64", "int4-g128", "mxfp4", "fp8"}) {
    const double quantised = decoded({"--quantize", format});
    EXPECT_NE(quantised, plain) << format;
    EXPECT_NEAR(quantised, plain, .5) << format;
  }
}

TEST(Quantize, AnUnknownFormatEndsWith2) {
  const Finished result = lamina_program(
      {"decode", "-m", trained_run(), "--quantize", "int3", "--ids", "1", "-n", "1"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "error: --quantize: 'int3' is not a format; expected int8, int4, int4-g64, int4-g128, "
            "mxfp4, nvfp4, fp8\n");
}

TEST(Quantize, RulesNeedAFormat) {
  const Finished result = lamina_program(
      {"decode", "-m", trained_run(), "--quantize-rule", "head=int8", "--ids", "1", "-n", "1"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "error: --quantize-rule: needs --quantize; add it\n");
}

TEST(Quantize, PlanListsTheStorageOfEveryParameter) {
  const Finished result = lamina_program(
      {"plan", trained_run(), "--quantize", "int4", "--quantize-rule", "layers:1=int8", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const JsonDocument json = JsonDocument::parse(result.out, "plan");
  std::int64_t bytes = 0;
  std::string of_queries;
  for (JsonValue row : json.root().at("storage").elements()) {
    bytes += row.at("bytes").as_int64();
    const std::string name(row.at("parameters").as_string());
    if (name.ends_with("attention.wq.weight"))
      of_queries += name + " " + std::string(row.at("storage").as_string()) + "; ";
  }
  EXPECT_EQ(of_queries,
            "layers.0.attention.wq.weight INT4_32; layers.1.attention.wq.weight INT8_32; ");
  std::int64_t stored = 0;
  for (const auto& [name, value] : json.root().at("stored_weight_bytes").members())
    stored += value.as_int64();
  EXPECT_EQ(bytes, stored);
}

TEST(Quantize, RunFilesAreRefused) {
  const TempDir folder;
  const std::string run = folder.write("run.toml", tiny_run_file(folder / "out"));
  for (const char* command : {"plan", "explain"}) {
    const Finished result = lamina_program({command, run, "--quantize", "int8"});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("it rounds the weights of a model to decode with"));
  }
}

// Two steps of an adapter for trained_run(); `keys` belong to [train].
std::string adapter_run_file(const std::string& out, const std::string& keys) {
  return "[run]\nout = \"" + out +
         "\"\n[data]\ntrain = \"" LAMINA_SOURCE_DIR
         "/docs/glossary.md\"\nsequence_length = 32\n[train]\nfrom = \"" +
         trained_run() + "\"\nsteps = 2\nbatch_size = 2\ndtype = \"bfloat16\"\n" + keys +
         "[lora]\nrank = 2\n[checkpoint]\nevery_steps = 2\n";
}

TEST(Quantize, OptionsOfTrainSetTheKeysOfTheRun) {
  const TempDir folder;
  // Returns the weights of the last checkpoint.
  const auto trained = [&](const std::string& out, const std::string& keys,
                           const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "train", folder.write(out + ".toml", adapter_run_file(folder / out, keys)), "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished result = lamina_program(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? folder.read(out + "/checkpoints/step-00000002/model.safetensors")
                            : "";
  };
  const std::string want = trained(
      "keys", "quantize = \"int4\"\nquantize_rules = [\"embedding=int8\", \"layers:1=none\"]\n",
      {});
  const std::string got = trained("options", "",
                                  {"--quantize", "int4", "--quantize-rule", "embedding=int8",
                                   "--quantize-rule", "layers:1=none"});
  EXPECT_TRUE(got == want);
  EXPECT_FALSE(trained("no-rules", "", {"--quantize", "int4"}) == want);
}

// Rows of w2 have 48 values, which no block divides.
TEST(Quantize, TrainNamesRulesInTheFormThatWasUsed) {
  const TempDir folder;
  int num_runs = 0;
  const auto run = [&](const std::string& keys, const std::vector<std::string>& more) {
    const std::string out = folder / ("out" + std::to_string(++num_runs));
    std::vector<std::string> words = {
        "train", folder.write("run.toml", adapter_run_file(out, keys)), "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return lamina_program(words).err;
  };
  const std::string says = "this accepts that without a warning: ",
                    rule = "layers.*.feed_forward.w2.weight=none",
                    of_option = says + "--quantize-rule '" + rule + "'\n",
                    of_key = says + "\"" + rule + "\" in train.quantize_rules\n";
  EXPECT_THAT(run("", {"--quantize", "int4"}), HasSubstr(of_option));
  EXPECT_THAT(run("", {"--quantize", "int4", "--quantize-rule", "embedding=int8"}),
              HasSubstr(of_option));
  EXPECT_THAT(run("quantize = \"int4\"\n", {}), HasSubstr(of_key));
  EXPECT_THAT(run("quantize = \"int4\"\nquantize_rules = [\"embedding=int8\"]\n", {}),
              HasSubstr(of_key));
  // The option would replace the rules of the run file.
  EXPECT_THAT(run("quantize_rules = [\"embedding=int8\"]\n", {"--quantize", "int4"}),
              HasSubstr(of_key));
  EXPECT_THAT(run("", {"--quantize", "int4", "--quantize-rule", "norm=int8"}),
              HasSubstr("error: --quantize-rule norm=int8: matches no matrix"));
}

TEST(Quantize, RulesOfTrainNeedTheOption) {
  const TempDir folder;
  const std::string file =
      folder.write("run.toml", adapter_run_file(folder / "out", "quantize = \"int4\"\n"));
  const Finished result = lamina_program({"train", file, "--quantize-rule", "embedding=int8"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "error: --quantize-rule: needs --quantize; add it\n");
}

TEST(Quantize, BenchmarksCountStoredBytes) {
  const TempDir folder;
  const std::string model = folder.write(
      "m.toml",
      "family = \"llama2\"\n[model]\nvocab_size = 64\nhidden_size = 256\nintermediate_size = 512\n"
      "num_hidden_layers = 2\nnum_attention_heads = 4\nnum_key_value_heads = 4\n");
  const auto bytes = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"bench", "decode",    "-m", model,   "-n",
                                      "2",     "--repeats", "1",  "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished result = lamina_program(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return JsonDocument::parse(result.out, "bench").root().at("bytes_per_token").as_double();
  };
  // Matrices of 4 x 256 x 256 and 3 x 256 x 512 in each of two layers.
  const double values = 2 * (4 * 256 * 256 + 3 * 256 * 512);
  EXPECT_NEAR(bytes({}) - bytes({"--quantize", "int8"}), values * (2 - 130. / 128), 1);
  EXPECT_NEAR(bytes({}) - bytes({"--quantize", "int4"}), values * (2 - 18. / 32), 1);
}

// Rounding holds the files, the result and pieces, but no second copy of the weights.
TEST(Quantize, LoadingNeedsMemoryForTheFileAndTheResultOnly) {
  const TempDir folder;
  const auto description = [](int layers) {
    return fmt::format(
        "family = \"llama2\"\n[model]\nvocab_size = 64\nhidden_size = 1024\nintermediate_size = "
        "4096\nnum_hidden_layers = {}\nnum_attention_heads = 8\nnum_key_value_heads = 8\n",
        layers);
  };
  const auto peak = [&](int layers) {
    const std::string to = folder / fmt::format("m{}", layers);
    fs::create_directory(to);
    folder.write(fmt::format("m{}/model.toml", layers), description(layers));
    const decoder::Model model = lamina::testing::open_description(description(layers));
    std::vector<io::TensorSpec> specs;
    for (const decoder::Parameter& p : model.parameters().all())
      specs.push_back({p.name, DType::bf16, p.desc.shape});
    const std::vector<std::byte> values(std::size_t{2} * 1024 * 4096, std::byte{0x3c});
    io::write_weight_files(to, specs, [&](const io::TensorSpec& spec) {
      return std::span(values).first(io::num_bytes(spec));
    });
    const Finished result = lamina_program(
        {"decode", "-m", to, "--quantize", "int4", "--ids", "1,2", "-n", "1", "-t", "2"});
    EXPECT_EQ(result.code, 0) << result.err;
    return static_cast<double>(result.peak_bytes);
  };
  const double per_layer = 4. * 1024 * 1024 + 3. * 1024 * 4096;
  const double file = 2 * per_layer, result = per_layer * 18 / 32, tensor = 4. * 1024 * 4096;
  EXPECT_LT(peak(3) - peak(1), 2 * (file + result) + tensor);
}

}  // namespace
}  // namespace lamina::cli
