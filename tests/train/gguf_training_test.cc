// Training from a GGUF file whose rows of queries and keys are paired, and adapters on one: weights
// and adapters use the row order of the published model.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/float16.h"
#include "formats/lookup.h"
#include "model/export.h"
#include "support/expect_error.h"
#include "support/gguf_conversion.h"
#include "support/packed_model.h"
#include "support/paths.h"
#include "train/lora_run.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

// Converts the folder's "model" like llama.cpp's converter, in float32.
std::string gguf_beside_model(const TempDir& folder) {
  return folder.write("model.gguf",
                      as_llama(folder / "model").layers(kFeedForwardNames).gguf.bytes());
}

std::vector<std::vector<float>> values_in(const std::string& directory) {
  const model::Loaded m = load_f32(directory);
  return copy_of(m.model(), m.weights.pointers());
}

TEST(GgufTraining, BeginsWithThePublishedRowsAndExportsThem) {
  const TempDir folder;
  const std::string from = add_golden_model(folder, "llama3_gqa");
  const std::string gguf = gguf_beside_model(folder);
  folder.write("text.txt", text_of_words(40));
  RunOfFile run(folder.write("run.toml",
                             "[data]\ntrain = [\"text.txt\"]\nsequence_length = 12\n"
                             "tokenizer = \"model\"\n[train]\nfrom = \"model.gguf\"\nsteps = 6\n"
                             "batch_size = 2\n[run]\nout = \"out\"\n"));
  EXPECT_TRUE(run.train(0).stopped);
  EXPECT_EQ(values_in(run.checkpoint()), values_in(from));
  EXPECT_NE(values_in(gguf), values_in(from)) << "is used where it is, with its own rows";
  model::export_model(run.checkpoint(), folder / "hf", {}, built_plugins(), cpu::cpu_backend());
  EXPECT_EQ(values_in(folder / "hf"), values_in(from));
  const decoder::Model exported = open_model(fs::path(folder / "hf"));
  EXPECT_EQ(exported.config().values().find("rope_interleave")->value, config::Value(false));
}

TEST(GgufTraining, AdaptersFitThePublishedModel) {
  const TempDir folder;
  LoraRun run(folder);
  run.train();
  const std::string gguf = gguf_beside_model(folder);
  const std::string adapter = copy_adapter(folder, run.checkpoint());
  const std::vector<float> want = logits_of(load_f32(folder / "model", adapter));
  EXPECT_EQ(logits_of(load_f32(gguf, adapter)), want);
  EXPECT_GT(relative_difference(logits_of(load_f32(gguf)), want), 1e-3);
  model::merge_to_hf(gguf, {.adapter = adapter}, folder / "merged", DType::f32, built_plugins(),
                     cpu::cpu_backend());
  EXPECT_LT(relative_difference(logits_of(load_f32(folder / "merged")), want), 1e-5);
}

// An adapter trained on the file fits the published model.
TEST(GgufTraining, LearnsAdaptersOfThePublishedModel) {
  const TempDir a, b;
  LoraRun over_published(a);
  over_published.train();
  LoraRun::write_file(b, "llama3_gqa");
  gguf_beside_model(b);
  LoraRun over_file(b, {"train.from=" + b / "model.gguf", "data.tokenizer=" + b / "model"});
  over_file.train();
  EXPECT_EQ(logits_of(load_f32(over_file.checkpoint())),
            logits_of(load_f32(over_published.checkpoint())));
  EXPECT_EQ(logits_of(load_f32(a / "model", copy_adapter(b, over_file.checkpoint()))),
            logits_of(load_f32(over_published.checkpoint())));
}

// Adds the matrices of feed-forwards in blocks of Q8_0 with the same numbers.
void add_blocks(GgufConversion& model) {
  std::string block = raw_bytes(to_float16(0.01f).bits);
  for (int i = 0; i < 32; ++i) block += static_cast<char>(i - 16);
  for (std::int64_t layer = 0; layer < model.count("num_hidden_layers"); ++layer)
    for (const auto& [name, published] : kFeedForwardNames) {
      const std::vector<std::int64_t> dims =
          model.dims(GgufConversion::published_layer(layer, published) + ".weight");
      std::string bytes;
      for (std::int64_t i = 0; i < dims[0] * dims[1] / 32; ++i) bytes += block;
      model.gguf.tensor(GgufConversion::layer_name(layer, name) + ".weight", dims,
                        formats::block_format_named("Q8_0")->gguf_type, bytes);
    }
}

TEST(GgufTraining, MergedBlocksBecomeBfloat16AndPlainFilesKeepTheirType) {
  const PackedModel folder;
  RunOfFile run(folder.write("lora.toml",
                             "[data]\ntrain = [\"text.txt\"]\nsequence_length = 24\n[train]\n"
                             "from = \"base\"\nsteps = 1\nbatch_size = 2\n[lora]\nrank = 4\n"
                             "[run]\nout = \"out\"\n"));
  run.train();
  const std::string adapter = copy_adapter(folder, run.checkpoint());
  for (const bool in_blocks : {false, true}) {
    const std::string name = in_blocks ? "blocks" : "plain";
    GgufConversion model = as_llama(folder / "base");
    if (in_blocks)
      add_blocks(model);
    else
      model.layers(kFeedForwardNames);
    const std::string gguf = folder.write(name + ".gguf", model.gguf.bytes());
    model::merge_to_hf(gguf, {.adapter = adapter}, folder / name, {}, built_plugins(),
                       cpu::cpu_backend());
    const io::WeightFiles files(folder / name);
    EXPECT_TRUE(files.contains("model.layers.1.mlp.down_proj.weight"));
    for (std::string_view tensor : files.names())
      EXPECT_EQ(files.tensor(tensor).dtype, in_blocks ? DType::bf16 : DType::f32) << tensor;
  }
}

TEST(GgufTraining, RowsThatAreNoHeadsAreRefused) {
  const TempDir folder;
  add_golden_model(folder, "llama3_gqa");
  GgufConversion model = as_llama(folder / "model");
  model.layers(kFeedForwardNames).set("attention.key_length", std::uint32_t{5});
  const std::string gguf = folder.write("odd.gguf", model.gguf.bytes());
  EXPECT_USER_ERROR(
      model::describe(gguf, built_plugins(), {}, {}, model::WeightForm::published),
      ExitCode::checkpoint,
      gguf + ": 'attention.head_count' gives heads of width 5; expected an even width");
}

}  // namespace
}  // namespace lamina::testing
