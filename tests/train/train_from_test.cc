// train.from: a run starts with the weights of a directory, computes the same as evaluation, and
// keeps and exports the directory's other files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "backends/cpu/backend.h"
#include "io/hf_directory.h"
#include "io/manifest.h"
#include "io/stored_weight.h"
#include "model/load.h"
#include "publishers/formats.h"
#include "support/expect_error.h"
#include "support/models.h"
#include "support/published_model.h"
#include "support/run_of_file.h"
#include "support/wrong_index.h"
#include "train/loop/eval_step.h"
#include "weights/publish/hf_export.h"
#include "weights/publish/published_form.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;
using program::Rows;

std::string bytes_of_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A run file that starts from `from`, and its text.
std::string write_run(const TempDir& folder, const std::string& from, const std::string& train = "",
                      const std::string& more = "") {
  folder.write("text.txt", text_of_words(40));
  return folder.write("run.toml", more + "[data]\ntrain = [\"text.txt\"]\nsequence_length = 12\n" +
                                      "[train]\nfrom = \"" + from +
                                      "\"\nsteps = 6\nbatch_size = 2\n" + train +
                                      "[optimizer]\nlr = 1e-2\n[checkpoint]\nevery_steps = 2\n"
                                      "keep = 100\n[run]\nout = \"out\"\nseed = 5\n");
}

// Splits the tensors of a model directory into several files.
void split_into_shards(const std::string& directory) {
  {
    const io::WeightFiles files(directory);
    std::vector<io::TensorSpec> specs;
    for (std::string_view name : files.names())
      specs.push_back({std::string(name), files.tensor(name).dtype, files.tensor(name).shape});
    io::write_weight_files(
        directory, specs, [&](const io::TensorSpec& spec) { return files.tensor(spec.name).bytes; },
        {.max_shard_bytes = 50'000});
  }
  fs::remove(directory + "/model.safetensors");
}

// The stored values of every parameter in a model directory.
std::vector<std::vector<float>> values_in(const std::string& directory) {
  const model::Loaded m = model::load(directory, built_plugins(), DType::f32, cpu::cpu_backend());
  return copy_of(m.model(), m.weights.pointers());
}

class TrainFrom : public ::testing::TestWithParam<TestModel> {
 protected:
  void SetUp() override {
    if (!fs::is_directory(GetParam().path)) GTEST_SKIP() << "has no weights";
    if (open_model(GetParam().path).options().head.no_loss) GTEST_SKIP() << "has no loss";
  }
};

TEST_P(TrainFrom, ComputesTheLossOfEvaluation) {
  const TempDir folder;
  const std::string from = add_published_model(folder, GetParam().path);
  RunOfFile ready(write_run(folder, from));
  const model::Loaded m = model::load(from, built_plugins(), DType::f32, cpu::cpu_backend());
  data::DataCursor cursor;
  data::Batch batch;
  ready.run->data().train.next(cursor, 2, batch);
  const program::Microbatch rows{batch.tokens.data(), batch.labels.data(), batch.positions.data(),
                                 batch.segment_ids.data()};
  train::EvalStep eval(m.model(), 2, 12, DType::f32, true, cpu::cpu_backend());
  const train::StepResult step = ready.run->loop().step().gradients({&rows, 1}, 0);
  EXPECT_NEAR(step.loss, eval.run(rows, m.weights.pointers()).mean_loss(), 1e-5 * step.loss);
}

TEST_P(TrainFrom, WithoutAStepIsExportedBitForBit) {
  const TempDir folder;
  const std::string from = add_published_model(folder, GetParam().path);
  RunOfFile ready(write_run(folder, from));
  EXPECT_TRUE(ready.train(0).stopped);
  const model::OpenedModel opened = model::open(ready.checkpoint(), built_plugins());
  weights::export_to_hf(*opened.model, ready.checkpoint(), folder / "export", {});
  const io::WeightFiles before(from), after(folder / "export");
  const weights::TensorMap map = weights::match_weights(open_model(from), before);
  EXPECT_EQ(after.names().size(), map.tensors().size());
  for (const weights::PublishedTensor& tensor : map.tensors()) {
    const io::StoredWeight stored(before, tensor.name);
    // Compressed weights are exported in bfloat16, and not as blocks.
    constexpr std::string_view kBlocks = publishers::kMxfp4Name.weight;
    const bool blocks = !stored.is_plain() && tensor.name.ends_with(kBlocks);
    const std::string name =
        tensor.name.substr(0, tensor.name.size() - (blocks ? kBlocks.size() : 0));
    ASSERT_TRUE(after.contains(name)) << name;
    const io::TensorView now = after.tensor(name);
    if (!stored.is_plain()) {
      EXPECT_EQ(now.dtype, DType::bf16) << name;
      continue;
    }
    EXPECT_EQ(now.dtype, stored.data().dtype) << tensor.name;
    EXPECT_EQ(now.shape, stored.data().shape) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(now.bytes, stored.data().bytes)) << tensor.name;
    EXPECT_EQ(fs::path(after.path_of(tensor.name)).filename(),
              fs::path(before.path_of(tensor.name)).filename());
  }
  EXPECT_NO_THROW(model::load(folder / "export", built_plugins(), DType::f32, cpu::cpu_backend()));
}

INSTANTIATE_TEST_SUITE_P(All, TrainFrom, ::testing::ValuesIn(test_models()),
                         [](const auto& test) { return test_name(test.param.name); });

const char* const kPublishedFiles[] = {"tokenizer.json", "tokenizer_config.json",
                                       "special_tokens_map.json", "generation_config.json",
                                       "chat_template.jinja"};

TEST(TrainFrom, FilesBesideTheWeightsGoAlongByteForByte) {
  const TempDir folder;
  const std::string from = add_golden_model(folder, "llama3_gqa");
  split_into_shards(from);
  RunOfFile ready(write_run(folder, from));
  ready.train();
  const model::OpenedModel opened = model::open(ready.checkpoint(), built_plugins());
  EXPECT_EQ(opened.end_tokens, (std::vector<std::int64_t>{2, 11}));
  weights::export_to_hf(*opened.model, ready.checkpoint(), folder / "export", {});
  for (const char* name : kPublishedFiles) {
    EXPECT_EQ(bytes_of_file(ready.checkpoint() + "/" + name), bytes_of_file(from + "/" + name));
    EXPECT_EQ(bytes_of_file(folder / "export" + "/" + name), bytes_of_file(from + "/" + name));
  }
  EXPECT_EQ(bytes_of_file(folder / "export" + "/config.json"),
            bytes_of_file(from + "/config.json"));
  const io::WeightFiles before(from), after(folder / "export");
  EXPECT_GT(before.files().size(), 2u);
  EXPECT_EQ(after.names(), before.names());
  for (std::string_view name : before.names())
    EXPECT_EQ(fs::path(after.path_of(name)).filename(), fs::path(before.path_of(name)).filename());
}

// A template in tokenizer_config.json counts only where there is no chat_template.jinja.
TEST(TrainFrom, TheTemplateOfAnotherTokenizerReplacesTheModels) {
  const TempDir folder;
  const std::string from = add_golden_model(folder, "llama3_gqa");
  folder.write("model/additional_chat_templates/tool_use.jinja", "tools");
  folder.write("words/tokenizer.json", tokenizer_of_words());
  const std::string run = write_run(folder, from);
  const std::string set = "data.tokenizer=" + folder / "words";
  const auto files = [&](const char* out) {
    RunOfFile ready(run, {set, "run.out=" + folder / out});
    ready.train(1);
    return io::side_files(ready.checkpoint());
  };
  EXPECT_THAT(files("without"),
              ::testing::UnorderedElementsAre("additional_chat_templates/tool_use.jinja",
                                              "chat_template.jinja", "generation_config.json",
                                              "tokenizer.json"));
  folder.write("words/tokenizer_config.json", R"({"chat_template": "{{ messages | length }}"})");
  EXPECT_THAT(files("with"),
              ::testing::UnorderedElementsAre("generation_config.json", "tokenizer.json",
                                              "tokenizer_config.json"));
}

TEST(TrainFrom, TheTemplateOfTheDataIsTheCheckpoints) {
  const TempDir folder;
  const std::string from = add_golden_model(folder, "llama3_gqa");
  folder.write("model/additional_chat_templates/tool_use.jinja", "tools");
  folder.write("mine.jinja", "mine");
  std::string records;
  for (int i = 0; i < 8; ++i)
    records += "{\"prompt\": \"the light\", \"completion\": \"was deep\"}\n";
  folder.write("records.jsonl", records);
  const std::string run = folder.write(
      "run.toml",
      "[data]\ntrain = [\"records.jsonl\"]\nform = \"chat\"\nchat_template = \"mine.jinja\"\n"
      "sequence_length = 12\n[train]\nfrom = \"" +
          from + "\"\nsteps = 4\nbatch_size = 1\n[run]\nout = \"out\"\n");
  EXPECT_TRUE(RunOfFile(run).train(2).stopped);
  RunOfFile rest(run);
  const auto expect_mine = [&] {
    EXPECT_EQ(bytes_of_file(rest.checkpoint() + "/chat_template.jinja"), "mine");
    EXPECT_FALSE(fs::exists(rest.checkpoint() + "/additional_chat_templates"));
    EXPECT_TRUE(fs::exists(rest.checkpoint() + "/tokenizer_config.json"));
  };
  expect_mine();
  EXPECT_FALSE(rest.train().stopped);
  expect_mine();
}

TEST(Training, ARunWithFreshWeightsKeepsTheTemplateOfItsData) {
  const TempDir folder;
  folder.write("words/tokenizer.json", tokenizer_of_words());
  folder.write("words/chat_template.jinja", "theirs");
  folder.write("mine.jinja", "mine");
  folder.write("records.jsonl", "{\"prompt\": \"the light\", \"completion\": \"was deep\"}\n");
  const std::string run = folder.write(
      "run.toml",
      "family = \"llama2\"\n[model]\nvocab_size = 12\nhidden_size = 16\nintermediate_size = 24\n"
      "num_hidden_layers = 1\nnum_attention_heads = 2\n"
      "[data]\ntrain = [\"records.jsonl\"]\nform = \"chat\"\ntokenizer = \"words\"\n"
      "chat_template = \"mine.jinja\"\nsequence_length = 12\n"
      "[train]\nsteps = 1\nbatch_size = 1\n[run]\nout = \"out\"\n");
  RunOfFile ready(run);
  ready.train();
  EXPECT_EQ(bytes_of_file(ready.checkpoint() + "/chat_template.jinja"), "mine");
  EXPECT_FALSE(io::first_difference(ready.checkpoint(), io::read_manifest(ready.checkpoint()),
                                    io::ManifestCheck::checksums));
}

TEST(TrainFrom, ResumesWithoutTheDirectoryToTheSameBits) {
  const TempDir a, b;
  RunOfFile whole(write_run(a, add_golden_model(a, "llama3_gqa")));
  whole.train();
  const std::string from = add_golden_model(b, "llama3_gqa");
  const std::string file = write_run(b, from);
  EXPECT_TRUE(RunOfFile(file).train(3).stopped);
  fs::remove_all(from);
  RunOfFile rest(file);
  EXPECT_FALSE(rest.train().stopped);
  for (const char* name :
       {"model.safetensors", "optimizer.safetensors", "published.json", "tokenizer.json"})
    EXPECT_EQ(bytes_of_file(rest.checkpoint() + "/" + name),
              bytes_of_file(whole.checkpoint() + "/" + name))
        << name;
}

TEST(TrainFrom, ACheckpointOrItsRunGivesWeightsAndForm) {
  const TempDir folder;
  const std::string from = add_golden_model(folder, "gpt2_prefixed");
  RunOfFile first(write_run(folder, from));
  first.train();
  const std::vector<std::vector<float>> trained = values_in(first.checkpoint());
  EXPECT_NE(trained, values_in(from));
  for (const std::string& source : {first.checkpoint(), first.config.run.out}) {
    RunOfFile second(write_run(folder, source), {"run.out=" + folder / "second"});
    EXPECT_TRUE(second.train(0).stopped);
    EXPECT_EQ(values_in(second.checkpoint()), trained);
    for (const char* name : {"published.json", "tokenizer.json", "generation_config.json"})
      EXPECT_EQ(bytes_of_file(second.checkpoint() + "/" + name),
                bytes_of_file(first.checkpoint() + "/" + name));
    fs::remove_all(folder / "second");
  }
}

// An export writes the files that the form names.
TEST(TrainFrom, AFormThatNamesOtherFilesIsRefused) {
  for (const char* name :
       {"../../x.safetensors", "/x.safetensors", "a/x.safetensors", "tokenizer.json", "..", ""})
    EXPECT_ERROR_SAYS(
        weights::PublishedForm::of_text(fmt::format(
            R"({{"config": {{}}, "tensors": {{"a": {{"dtype": "f32", "file": "{}"}}}}}})", name)),
        ExitCode::checkpoint, "must be the name of a .safetensors file without a path, got ")
}

TEST(TrainFrom, ReadsGgufFilesWithATokenizerFromElsewhere) {
  const TempDir folder;
  const std::string words = add_golden_model(folder, "llama3_gqa");
  const std::string gguf = (golden_dir() / "gguf/llama_q8_0").string();
  if (!fs::exists(gguf)) GTEST_SKIP() << "$LAMINA_GOLDENS has no GGUF files";
  const std::string file = write_run(folder, gguf);
  RunOfFile ready(file, {"data.tokenizer=" + words});
  EXPECT_TRUE(ready.train(0).stopped);
  // The rows of queries and keys in another order, which gives the same results.
  const auto logits_of = [](const std::string& path) {
    const model::Loaded m = model::load(path, built_plugins(), DType::f32, cpu::cpu_backend());
    return forward(m.model(), m.weights.pointers(), random_rows(m.model(), 2, 7));
  };
  EXPECT_LE(relative_difference(logits_of(ready.checkpoint()), logits_of(gguf)), 1e-5);
  auto values = values_in(ready.checkpoint()), stored = values_in(gguf);
  ASSERT_EQ(values.size(), stored.size());
  for (std::size_t p = 0; p < values.size(); ++p) {
    std::ranges::sort(values[p]);
    std::ranges::sort(stored[p]);
    EXPECT_EQ(values[p], stored[p]);
  }
  EXPECT_EQ(bytes_of_file(ready.checkpoint() + "/tokenizer.json"),
            bytes_of_file(words + "/tokenizer.json"));
}

TEST(TrainFrom, NewRowsOfAVocabularyAreTheMeanOfTheOldOnes) {
  const TempDir folder;
  const std::string from = add_golden_model(folder, "mistral_window");
  const std::string file = write_run(folder, from, "fresh = [\"embed.weight\", \"lm_head.*\"]\n",
                                     "[model]\nvocab_size = 159\n");
  RunOfFile ready(file);
  ready.train(0);
  const std::vector<std::vector<float>> before = values_in(from),
                                        after = values_in(ready.checkpoint());
  const decoder::ParameterTable& parameters = ready.training.model->parameters();
  for (const char* name : {"embed.weight", "head.weight"}) {
    const auto i = static_cast<std::size_t>(parameters.find(name));
    const std::size_t width = 48, rows = before[i].size() / width, old = rows * width;
    ASSERT_EQ(after[i].size(), (rows + 2) * width);
    EXPECT_TRUE(std::equal(before[i].begin(), before[i].end(), after[i].begin())) << name;
    for (std::size_t column = 0; column < width; ++column) {
      double sum = 0;
      for (std::size_t at = column; at < old; at += width)
        sum += static_cast<double>(before[i][at]);
      EXPECT_FLOAT_EQ(after[i][old + column], static_cast<float>(sum / static_cast<double>(rows)));
      EXPECT_EQ(after[i][old + column], after[i][old + width + column]);
    }
  }
  const model::OpenedModel opened = model::open(ready.checkpoint(), built_plugins());
  weights::export_to_hf(*opened.model, ready.checkpoint(), folder / "export", {});
  EXPECT_EQ(io::HfDirectory(folder / "export").config().at("vocab_size").as_int64(), 159);
  EXPECT_EQ(io::WeightFiles(folder / "export").tensor("lm_head.weight").shape, (Shape{159, 48}));
}

TEST(TrainFrom, NewRowsOfIntegersStartAsInAFreshModel) {
  const TempDir folder;
  const std::string from = add_golden_model(folder, "deepseek_v4");
  const decoder::Model source = open_model(from);
  const std::int64_t rows = source.vocab_size(), more = rows + 11;
  RunOfFile ready(write_run(folder, from, "fresh = [\"*\"]\n",
                            fmt::format("[model]\nvocab_size = {}\n", more)));
  ready.train(0);
  const decoder::Parameter& table = *std::ranges::find_if(
      ready.training.model->parameters().all(),
      [](const decoder::Parameter& p) { return p.name.ends_with(".moe.experts_of_token"); });
  const auto values = [&](const decoder::Model& model, const std::string& directory) {
    return values_in(directory)[static_cast<std::size_t>(model.parameters().find(table.name))];
  };
  std::vector<float> want(static_cast<std::size_t>(table.num_elements()));
  weights::initialise(table, 5, want);
  std::ranges::copy(values(source, from), want.begin());
  EXPECT_EQ(values(*ready.training.model, ready.checkpoint()), want);
  EXPECT_EQ(table.desc.shape[0], more);
}

TEST(TrainFrom, StartsNamedMissingParametersFresh) {
  const TempDir folder;
  const std::string from = add_golden_model(folder, "llama3_gqa");
  RunOfFile ready(
      write_run(folder, from, "fresh = [\"layers.3.*\"]\n", "[model]\nnum_hidden_layers = 4\n"));
  ready.train(0);
  const decoder::Model& model = *ready.training.model;
  const std::vector<std::vector<float>> before = values_in(from),
                                        after = values_in(ready.checkpoint());
  const decoder::Model source = open_model(from);
  for (std::size_t i = 0; i < after.size(); ++i) {
    const decoder::Parameter& p = model.parameters().all()[i];
    const int was = source.parameters().find(p.name);
    std::vector<float> want(after[i].size());
    if (was < 0)
      weights::initialise(p, 5, want);
    else
      want = before[static_cast<std::size_t>(was)];
    EXPECT_EQ(after[i], want) << p.name;
  }
  const model::OpenedModel opened = model::open(ready.checkpoint(), built_plugins());
  weights::export_to_hf(*opened.model, ready.checkpoint(), folder / "export", {});
  EXPECT_EQ(values_in(folder / "export").size(), after.size());
}

// A family that exports as the directory's family can start from it: the teacher is the directory's
// attention.
TEST(TrainFrom, AttentionOfALlamaIsTheTeacherOfAFamilyThatLearnsIt) {
  const TempDir folder;
  const std::string from = add_golden_model(folder, "llama3_gqa");
  RunOfFile ready(write_run(
      folder, from, "fresh = [\"*.heads.weight\", \"*.channels.weight\"]\n",
      "family = \"llama2lti\"\n[model]\nnum_attention_heads = 6\nnum_key_value_heads = 3\n"
      "head_dim = 8\nteacher_num_attention_heads = 4\nteacher_num_key_value_heads = 2\n"
      "teacher_head_dim = 12\n[[optimizer.groups]]\ngroup = \"teacher\"\nfrozen = true\n"));
  ready.train(2);
  const decoder::Model& model = *ready.training.model;
  EXPECT_EQ(model.family().name(), "llama2lti");
  const decoder::Model source = open_model(from);
  const std::vector<std::vector<float>> before = values_in(from),
                                        after = values_in(ready.checkpoint());
  int compared = 0;
  for (const char* name : {"wq", "wk", "wv", "wo"}) {
    const auto learned =
        model.parameters().find(fmt::format("layers.1.attention.{}.teacher.weight", name));
    const auto taught = source.parameters().find(fmt::format("layers.1.attention.{}.weight", name));
    ASSERT_GE(learned, 0) << name;
    EXPECT_EQ(after[static_cast<std::size_t>(learned)], before[static_cast<std::size_t>(taught)])
        << name;
    ++compared;
  }
  EXPECT_EQ(compared, 4);
  const auto norm = [&](const decoder::Model& of, const auto& values) {
    return values[static_cast<std::size_t>(of.parameters().find("layers.1.ffn_norm.weight"))];
  };
  EXPECT_NE(norm(model, after), norm(source, before)) << "all else is trained";
}

TEST(TrainFrom, AFamilyThatLearnsFromAnotherAddsRowsToItsVocabulary) {
  const TempDir folder;
  const std::string from = add_golden_model(folder, "llama3_gqa");
  const decoder::Model source = open_model(from);
  RunOfFile ready(
      write_run(folder, from, "fresh = [\"*.heads.weight\", \"*.channels.weight\", \"embed.*\"]\n",
                fmt::format("family = \"llama2lti\"\n[model]\nvocab_size = {}\n"
                            "teacher_num_attention_heads = 4\nteacher_num_key_value_heads = 2\n"
                            "teacher_head_dim = 12\n",
                            source.vocab_size() + 3)));
  ready.train(0);
  const decoder::ParameterTable& parameters = ready.training.model->parameters();
  const std::vector<std::vector<float>> before = values_in(from),
                                        after = values_in(ready.checkpoint());
  const auto& was = before[static_cast<std::size_t>(source.parameters().find("embed.weight"))];
  const auto& is = after[static_cast<std::size_t>(parameters.find("embed.weight"))];
  ASSERT_EQ(is.size(), was.size() + 3 * 48);
  EXPECT_TRUE(std::equal(was.begin(), was.end(), is.begin()));
}

TEST(TrainFrom, BeginsNoRunWithMissingParameters) {
  const TempDir folder;
  const std::string from = add_golden_model(folder, "llama3_gqa");
  const std::string file =
      write_run(folder, from, "fresh = [\"layers.3.a*\"]\n", "[model]\nnum_hidden_layers = 4\n");
  EXPECT_USER_ERROR(RunOfFile{file}, ExitCode::checkpoint,
                    file + ":7: train.from: " + from +
                        " lacks 4 tensors of the model\n"
                        "  'layers.3.feed_forward.w1.weight'\n"
                        "  'layers.3.feed_forward.w2.weight'\n"
                        "  'layers.3.feed_forward.w3.weight'\n"
                        "  'layers.3.ffn_norm.weight'\n"
                        "  name in train.fresh those that are to start fresh");
}

TEST(TrainFrom, BlamesAnIndexThatNamesTheWrongShard) {
  const TempDir folder;
  const std::string from = add_golden_model(folder, "llama3_gqa");
  write_wrong_index(from, [](std::string_view name) { return name == "model.norm.weight"; });
  for (const char* fresh : {"", "fresh = [\"norm.weight\"]\n"})
    EXPECT_USER_ERROR(RunOfFile(write_run(folder, from, fresh)), ExitCode::checkpoint,
                      from +
                          ": tensor 'model.norm.weight' is missing\n"
                          "  for parameter 'norm.weight'\n"
                          "  the index assigns it to '" +
                          from + "/b.safetensors', but it is in '" + from +
                          "/a.safetensors': download the index again");
}

}  // namespace
}  // namespace lamina::testing
