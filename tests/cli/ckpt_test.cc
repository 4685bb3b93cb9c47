// lamina ckpt ls, verify and export: output, written files and refusals.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "backends/cpu/backend.h"
#include "cli/spoilt_model.h"
#include "cli/trained_run.h"
#include "core/json.h"
#include "io/weight_files.h"
#include "support/gguf_conversion.h"
#include "support/models.h"
#include "support/paths.h"
#include "support/published_model.h"
#include "weights/weights.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;
using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string newest() { return trained_run() + "/checkpoints/step-00000004"; }

// Changes the byte in the middle of the file.
void damage(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(fs::file_size(path) / 2));
  char old = static_cast<char>(file.peek());
  file.seekp(static_cast<std::streamoff>(fs::file_size(path) / 2));
  file.put(static_cast<char>(old ^ 1));
}

TEST(CkptLs, ShowsEveryCheckpointOfARun) {
  const Finished result = ckpt({"ls", trained_run()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("step        2"));
  EXPECT_THAT(result.out, HasSubstr("step        4"));
  EXPECT_THAT(result.out, HasSubstr(newest()));
  EXPECT_THAT(result.out, Not(HasSubstr("embed.weight")));
}

TEST(CkptLs, ShowsTensorsWhenVerbose) {
  const Finished result = ckpt({"ls", "-v", newest()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("F32   [258, 32]"));
  EXPECT_THAT(result.out, HasSubstr("m.layers.1.attention.wq.weight"));
}

TEST(CkptLs, ShowsTheTensorsOfTheMovingAverage) {
  const TempDir folder;
  ASSERT_EQ(train_tiny(folder, "out", {"--set", "train.ema=0.5", "--quiet"}).code, 0);
  const Finished result = ckpt({"ls", "-v", folder / "out/checkpoints/step-00000004"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("  ema.safetensors "));
}

TEST(CkptLs, LinksThatLeadNowhereAreSkipped) {
  const TempDir folder;
  folder.write("model/config.json", "{}");
  fs::create_symlink("nowhere", folder / "model/dangling");
  fs::create_symlink("loop", folder / "model/loop");
  const Finished result = ckpt({"ls", folder / "model"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("published weights"));
}

TEST(CkptLs, AnIndexOfOptimizerStateMarksACheckpoint) {
  const TempDir folder;
  folder.write("step/config.json", "{}");
  folder.write("step/optimizer.safetensors.index.json", R"({"weight_map": {}})");
  EXPECT_THAT(ckpt({"ls", folder / "step"}).out, StartsWith("incomplete: no manifest"));
}

TEST(CkptLs, JsonHasStepsAndSizes) {
  const Finished result = ckpt({"ls", trained_run(), "--json"});
  const JsonDocument json = JsonDocument::parse(result.out, "ckpt ls");
  ASSERT_EQ(json.root().size(), 2u);
  for (JsonValue entry : json.root().elements()) {
    EXPECT_GT(entry.at("step").as_int64(), 0);
    EXPECT_GT(entry.at("bytes").as_int64(), 258 * 32 * 4);
    EXPECT_EQ(entry.at("family").as_string(), "llama2");
  }
}

TEST(CkptExport, TheNameOfAFileIsRefused) {
  const TempDir folder;
  for (const char* name : {"m.gguf", "m.safetensors"}) {
    const Finished f = ckpt({"export", trained_run(), "--to", folder / name});
    EXPECT_EQ(f.code, 2);
    EXPECT_THAT(f.err, HasSubstr("is the name of a file, but a directory is written"));
    EXPECT_FALSE(fs::exists(folder / name));
  }
}

TEST(CkptVerify, AcceptsTrainedCheckpoints) {
  for (const std::string& all : {trained_run(), trained_run() + "/checkpoints"}) {
    const Finished result = ckpt({"verify", all});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("step-00000002: 5 files"));
    EXPECT_THAT(result.out, HasSubstr("step-00000004: 5 files"));
  }
}

TEST(CkptVerify, NamesTheDamagedTensorAndExitsWith4) {
  const TempDir folder;
  const std::string copy = folder / "copy";
  fs::copy(newest(), copy);
  damage(copy + "/optimizer.safetensors");
  const Finished result = ckpt({"verify", copy});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, StartsWith("error: " + copy + "/optimizer.safetensors: tensor 'm."));
  EXPECT_THAT(result.err, HasSubstr("does not match its checksum\n"
                                    "  it is damaged; use an older checkpoint or another copy\n"));
}

TEST(CkptVerify, NamesAMissingFile) {
  const TempDir folder;
  const std::string copy = folder / "copy";
  fs::copy(newest(), copy);
  fs::remove(copy + "/run.toml");
  const Finished result = ckpt({"verify", copy});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, HasSubstr(copy + "/run.toml: cannot be read"));
}

TEST(CkptVerify, NamesATensorThatIsNotInItsShard) {
  const TempDir folder;
  fs::create_directory(folder / "m");
  const std::vector<float> zero = {0};
  for (const char* name : {"a", "b"})
    io::write_safetensors(
        folder / "m/" + name + ".safetensors", {{name, DType::f32, {1}}}, {},
        [&](const io::TensorSpec&) { return std::as_bytes(std::span<const float>(zero)); });
  folder.write("m/config.json", "{}");
  const auto verify = [&](const char* shard_of_b, const char* more) {
    folder.write("m/model.safetensors.index.json",
                 fmt::format(R"({{"weight_map": {{"a": "a.safetensors", "b": "{}"{}}}}})",
                             shard_of_b, more));
    return ckpt({"verify", folder / "m"});
  };
  EXPECT_EQ(verify("b.safetensors", "").code, 0);
  const Finished missing =
      verify("b.safetensors", R"(, "c": "a.safetensors", "d": "b.safetensors")");
  EXPECT_EQ(missing.code, 4);
  EXPECT_EQ(missing.err, "error: " + folder / "m" +
                             ": tensor 'c' is missing\n"
                             "  the index assigns it to '" +
                             folder / "m/a.safetensors" +
                             "', which does not contain it: download that file again\n"
                             "  and 1 more\n");
  const Finished elsewhere = verify("a.safetensors", R"(, "c": "b.safetensors")");
  EXPECT_EQ(elsewhere.code, 4);
  EXPECT_THAT(elsewhere.err, HasSubstr("the index assigns it to '" + folder / "m/a.safetensors" +
                                       "', but it is in '" + folder / "m/b.safetensors" +
                                       "': download the index again\n"));
  const Finished diff = ckpt({"diff", folder / "m", folder / "m"});
  EXPECT_EQ(diff.code, 4);
  EXPECT_THAT(diff.err, HasSubstr("tensor 'b' is missing\n  the index assigns it to '" +
                                  folder / "m/a.safetensors" + "', but it is in '"));
}

TEST(CkptVerify, SaysWhereThereIsNoCheckpoint) {
  const TempDir folder;
  folder.write("notes.txt", "nothing");
  for (const char* command : {"ls", "verify"}) {
    const Finished result = ckpt({command, folder.path()});
    EXPECT_EQ(result.code, 4);
    EXPECT_EQ(result.err,
              "error: " + folder.path() +
                  ": contains no model: neither config.json, model.toml nor checkpoints\n"
                  "  it contains notes.txt\n");
  }
}

// Every parameter of both directories, bit for bit.
void expect_same_parameters(const std::string& a, const std::string& b) {
  const decoder::Model model = lamina::testing::open_model(fs::path(b));
  const Backend& backend = cpu::cpu_backend();
  const auto load = [&](const std::string& path) {
    return weights::Weights::load(model, std::make_shared<io::WeightFiles>(path), DType::f32,
                                  backend);
  };
  const weights::Weights of_a = load(a), of_b = load(b);
  for (std::size_t i = 0; i < model.parameters().all().size(); ++i) {
    const decoder::Parameter& p = model.parameters().all()[i];
    EXPECT_EQ(std::memcmp(lamina::testing::floats(of_a.pointers()[i]),
                          lamina::testing::floats(of_b.pointers()[i]),
                          static_cast<std::size_t>(p.num_elements()) * sizeof(float)),
              0)
        << p.name;
  }
}

TEST(CkptExport, LoadsToTheSameBitsInFloat32) {
  const TempDir folder;
  const Finished result = ckpt({"export", trained_run(), "--to", folder / "hf"});
  ASSERT_EQ(result.code, 0) << result.err;
  expect_same_parameters(newest(), folder / "hf");
}

double loss_of(const std::string& model, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {
      "eval",    "-m",      model,   "--data", LAMINA_SOURCE_DIR "/docs/glossary.md",
      "--dtype", "float32", "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const Finished result = lamina_program(words);
  EXPECT_EQ(result.code, 0) << result.err;
  return JsonDocument::parse(result.out, "eval").root().at("loss").as_double();
}

TEST(CkptExport, PredictsAsTheCheckpointDoes) {
  const TempDir folder;
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", folder / "hf"}).code, 0);
  EXPECT_EQ(loss_of(folder / "hf"), loss_of(newest()));
}

TEST(CkptExport, LeavesOutNamesOfWrapperModules) {
  const TempDir folder;
  const fs::path golden = LAMINA_SOURCE_DIR "/tests/golden/hf/llama3_gqa";
  const io::WeightFiles files(golden.string());
  const std::string prefix = "module._orig_mod.";
  std::vector<io::TensorSpec> specs;
  for (std::string_view name : files.names()) {
    const io::TensorView view = files.tensor(name);
    specs.push_back({prefix + std::string(name), view.dtype, view.shape});
  }
  fs::create_directories(folder / "wrapped");
  io::write_weight_files(folder / "wrapped", specs, [&](const io::TensorSpec& spec) {
    return files.tensor(std::string_view(spec.name).substr(prefix.size())).bytes;
  });
  fs::copy_file(golden / "config.json", folder / "wrapped/config.json");
  for (const char* dtype : {"float32", "bfloat16"}) {
    const std::string to = folder / dtype;
    const Finished result = ckpt({"export", folder / "wrapped", "--to", to, "--dtype", dtype});
    ASSERT_EQ(result.code, 0) << result.err;
    const io::WeightFiles written(to);
    EXPECT_EQ(written.names().size(), files.names().size());
    for (std::string_view name : files.names()) EXPECT_TRUE(written.contains(name)) << name;
  }
  expect_same_parameters(golden.string(), folder / "float32");
}

TEST(CkptExport, ConvertsToBfloat16AndSaysSoInTheConfig) {
  const TempDir folder;
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", folder / "hf", "--dtype", "bfloat16"}).code, 0);
  EXPECT_EQ(io::WeightFiles(folder / "hf").tensor("model.norm.weight").dtype, DType::bf16);
  EXPECT_THAT(folder.read("hf/config.json"), HasSubstr("\"torch_dtype\": \"bfloat16\""));
}

TEST(CkptExport, NamesTheKeysThatOtherProgramsMiss) {
  const TempDir folder;
  ASSERT_EQ(train_tiny(folder, "run",
                       {"--set", "model.logit_scale=2.0", "--set", "model.dropout_rate=0.1"})
                .code,
            0);
  const Finished result = ckpt({"export", folder / "run", "--to", folder / "export"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("other programs ignore logit_scale of the object \"lamina\""));
  EXPECT_THAT(ckpt({"export", trained_run(), "--to", folder / "plain"}).err,
              Not(HasSubstr("other programs ignore")));
}

// `twin` and `simple` read the same published names.
TEST(CkptExport, NamesTheFamilyIfAnotherOneReadsThePublishedNames) {
  const TempDir folder;
  const std::vector<std::string> with_twin = {"--plugin",
                                              LAMINA_BUILD_DIR "/tests/cli/plugins/twin.lamina.so"};
  const auto exported = [&](const std::string& from, const char* to, bool sees_twin) {
    std::vector<std::string> words = {"ckpt", "export", from, "--to", folder / to};
    if (sees_twin) words.insert(words.end(), with_twin.begin(), with_twin.end());
    const Finished result = lamina_program(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.err;
  };
  for (const char* family : {"simple", "twin"}) {
    std::vector<std::string> words = {
        "train", folder.write(std::string(family) + ".toml",
                              fmt::format("family = \"{0}\"\n[model]\nvocab_size = 258\n"
                                          "hidden_size = 16\nnum_hidden_layers = 2\n"
                                          "[run]\nout = \"{1}/{0}\"\n[data]\n"
                                          "train = \"" LAMINA_SOURCE_DIR "/docs/glossary.md\"\n"
                                          "sequence_length = 32\n"
                                          "[train]\nsteps = 2\nbatch_size = 2\n",
                                          family, folder.path()))};
    words.insert(words.end(), with_twin.begin(), with_twin.end());
    ASSERT_EQ(lamina_program(words).code, 0) << family;
  }
  const char* const kWarning = "of simple.lamina.so reads the same published names";
  const std::string said = exported(folder / "twin", "hf", true);
  EXPECT_THAT(said, HasSubstr("hf: family 'simple' of simple.lamina.so reads the same published "
                              "names, so config.json also names family 'twin'"));
  EXPECT_THAT(said, Not(HasSubstr("partial-")));
  EXPECT_THAT(folder.read("hf/config.json"),
              HasSubstr("\"lamina\": {\n    \"family\": \"twin\"\n  }"));
  EXPECT_EQ(loss_of(folder / "hf", with_twin), loss_of(folder / "twin", with_twin));
  const Finished refused = lamina_program({"decode", "-m", folder / "hf", "-p", "a", "-n", "1"});
  EXPECT_EQ(refused.code, 8) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("hf/config.json:"));
  EXPECT_THAT(refused.err, HasSubstr("no plugin has family 'twin'; found: "));

  EXPECT_THAT(exported(folder / "hf", "again", true), HasSubstr(kWarning));
  EXPECT_EQ(folder.read("again/config.json"), folder.read("hf/config.json"));
  EXPECT_THAT(exported(folder / "simple", "beside", true),
              HasSubstr("family 'twin' of twin.lamina.so reads the same published names"));
  EXPECT_EQ(loss_of(folder / "beside", with_twin), loss_of(folder / "simple"));
  EXPECT_THAT(exported(folder / "simple", "alone", false), Not(HasSubstr("published names")));
  EXPECT_THAT(folder.read("alone/config.json"), Not(HasSubstr("\"lamina\"")));
}

TEST(CkptExport, WarnsOfALayoutThatTransformersDoesNotRead) {
  const TempDir folder;
  const char* const kWarning =
      "model.layers.0.self_attn.qkv_proj.weight joins matrices that are published apart; "
      "transformers does not find them in it";
  const auto exported = [&](const std::string& from, const char* to, const char* layout) {
    std::vector<std::string> args = {"export", from, "--to", folder / to};
    if (*layout) args.insert(args.end(), {"--layout", layout});
    const Finished result = ckpt(args);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.err;
  };
  EXPECT_THAT(exported(trained_run(), "fused", "fused"), HasSubstr(kWarning));
  EXPECT_THAT(exported(folder / "fused", "again", ""), HasSubstr(kWarning));
  EXPECT_THAT(exported(folder / "fused", "apart", "published"), Not(HasSubstr("joins matrices")));
}

TEST(CkptExport, NamesNoKeysOfPredictionLayers) {
  const TempDir folder;
  const std::vector<std::string> predicts = {"--set", "model.num_nextn_predict_layers=1"};
  std::vector<std::string> scales = predicts;
  scales.insert(scales.end(), {"--set", "model.logit_scale=2.0"});
  ASSERT_EQ(train_tiny(folder, "run", predicts).code, 0);
  const Finished result = ckpt({"export", folder / "run", "--to", folder / "export"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(folder.read("export/config.json"), HasSubstr("\"num_nextn_predict_layers\": 1"));
  EXPECT_THAT(result.err, Not(HasSubstr("other programs ignore")));
  ASSERT_EQ(train_tiny(folder, "scaled", scales).code, 0);
  EXPECT_THAT(ckpt({"export", folder / "scaled", "--to", folder / "other"}).err,
              HasSubstr("other programs ignore logit_scale of the object \"lamina\""));
}

TEST(Ckpt, GgufFilesAreReadAndNotWritten) {
  const TempDir folder;
  ASSERT_EQ(ckpt({"export", newest(), "--to", folder / "model"}).code, 0);
  const std::string file =
      folder.write("gguf/model.gguf", lamina::testing::as_llama(folder / "model").gguf.bytes());
  for (const std::string& path : {file, folder / "gguf"}) {
    const Finished listed = ckpt({"ls", "-v", path});
    EXPECT_EQ(listed.code, 0) << listed.err;
    EXPECT_THAT(listed.out, StartsWith("published weights"));
    EXPECT_THAT(listed.out, HasSubstr("F32   [258, 32]"));
    const Finished verified = ckpt({"verify", path});
    EXPECT_EQ(verified.code, 0) << verified.err;
    EXPECT_THAT(verified.out, HasSubstr(" tensors, well-formed"));
  }
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"ckpt", "export", file, "--to", folder / "out"},
           {"ckpt", "average", file, file, "--to", folder / "out"},
           {"quantize", file, "--format", "int8", "--to", folder / "out"}}) {
    const Finished refused = lamina_program(words);
    EXPECT_EQ(refused.code, 4) << words[0];
    EXPECT_THAT(refused.err, HasSubstr("is a GGUF file, which lamina can read but not"));
  }
}

TEST(CkptExport, DoesNotWriteOverADirectory) {
  const TempDir folder;
  const Finished result = ckpt({"export", trained_run(), "--to", folder.path()});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "error: " + folder.path() +
                            ": exists already; --to must be a new directory\n"
                            "  choose another name, or remove it first\n");
}

TEST(CkptExport, WritesNothingIntoTheModelThatItReads) {
  const TempDir folder;
  const std::string model = folder / "hf";
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", model}).code, 0);
  const std::string inside = model + "/sub/q";
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"ckpt", "export", model},
                                             {"ckpt", "average", trained_run(), model},
                                             {"ckpt", "merge", model},
                                             {"quantize", model, "--format", "int8"}}) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"--to", inside});
    const Finished f = lamina_program(all);
    EXPECT_EQ(f.code, 2);
    EXPECT_THAT(f.err, HasSubstr("error: --to: '" + inside + "' is inside " + model +
                                 ", the directory of a model that is read\n"
                                 "  choose a directory outside of it\n"));
  }
  EXPECT_FALSE(fs::exists(model + "/sub"));
  // A neighbour whose name begins in the same way.
  EXPECT_EQ(ckpt({"export", model, "--to", model + "-2"}).code, 0);
}

TEST(CkptExport, SaysThatOtherProgramsLackTheByteTokenizer) {
  const TempDir folder;
  const Finished f = ckpt({"export", trained_run(), "--to", folder / "hf"});
  EXPECT_EQ(f.code, 0);
  EXPECT_THAT(f.err, HasSubstr("the model reads text as bytes, and other programs do not have this "
                               "tokenizer"));
}

TEST(CkptExport, ValuesMustBeFinite) {
  const TempDir folder;
  const std::string model = folder / "model";
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", model}).code, 0);
  spoil_tensor(model, "model.norm.weight", [](std::span<std::byte> bytes) {
    const float infinite = std::numeric_limits<float>::infinity();
    std::memcpy(bytes.data() + 3 * sizeof infinite, &infinite, sizeof infinite);
  });
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--dtype", "bfloat16"}, {"--layout", "fused"}}) {
    std::vector<std::string> words = {"export", model, "--to", folder / "again"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished f = ckpt(words);
    EXPECT_EQ(f.code, 4) << f.err;
    EXPECT_THAT(f.err, HasSubstr("tensor 'model.norm.weight' has the value inf at [3]; expected "
                                 "finite numbers"));
    EXPECT_FALSE(fs::exists(folder / "again"));
  }
}

// A plain export copies them in their compressed form.
TEST(CkptExport, CompressedValuesMustBeFinite) {
  struct Case {
    const char *golden, *tensor;
    std::size_t byte, value;
    const char* what;
  };
  for (const Case& c :
       {Case{"deepseek_v3_fp8", "model.layers.0.mlp.down_proj.weight", 5, 0x7f,
             "tensor 'model.layers.0.mlp.down_proj.weight' has the value nan at [0, 5]; expected "
             "finite numbers"},
        Case{"gpt_oss_mxfp4", "model.layers.0.mlp.experts.down_proj_scales", 0, 0xff,
             "has a scale that is not a number at element 0 of "
             "'model.layers.0.mlp.experts.down_proj_scales'"}}) {
    const TempDir folder;
    const std::string model = lamina::testing::add_golden_model(folder, c.golden);
    EXPECT_EQ(ckpt({"export", model, "--to", folder / "right"}).code, 0);
    spoil_tensor(model, c.tensor, [&](std::span<std::byte> bytes) {
      bytes[c.byte] = static_cast<std::byte>(c.value);
    });
    const Finished f = ckpt({"export", model, "--to", folder / "again"});
    EXPECT_EQ(f.code, 4) << f.err;
    EXPECT_THAT(f.err, HasSubstr(c.what));
    EXPECT_FALSE(fs::exists(folder / "again"));
  }
}

TEST(CkptExport, LeavesNothingBehindWhenWeightsAreDamaged) {
  const TempDir folder;
  const std::string copy = folder / "copy";
  fs::copy(newest(), copy);
  fs::resize_file(copy + "/model.safetensors", 5000);
  EXPECT_EQ(ckpt({"export", copy, "--to", folder / "hf"}).code, 4);
  fs::remove_all(copy);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(CkptExport, ADescriptionAloneHasNothingToExport) {
  const std::string file = LAMINA_SOURCE_DIR "/configs/models/gpt3-52k.toml";
  const TempDir folder;
  const Finished result = ckpt({"export", file, "--to", folder / "hf"});
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(result.err, "error: " + file +
                            ": describes a model but has no weights; expected a checkpoint, a run "
                            "directory or a model directory\n");
}

// A model with learned initialisation is exported as the initialised model.
TEST(CkptExport, FoldsLearntInitialisationIntoAnOrdinaryModel) {
  for (const char* general : {"false", "true"}) {
    const TempDir folder, outside;
    const std::string text = folder.write("model.toml", fmt::format(R"(family = "llama2lti"
[model]
vocab_size = 37
hidden_size = 24
num_hidden_layers = 2
intermediate_size = 20
num_attention_heads = 4
num_key_value_heads = 2
head_dim = 6
teacher_num_attention_heads = 6
teacher_num_key_value_heads = 3
teacher_head_dim = 5
lti_use_general_linear_map = {}
initializer_range = 0.3
num_nextn_predict_layers = 1
)",
                                                                    general));
    const decoder::Model model = lamina::testing::open_model(fs::path(text));
    const weights::Weights weights =
        weights::Weights::initialise(model, 3, DType::f32, cpu::cpu_backend());
    std::vector<io::TensorSpec> specs;
    for (const decoder::Parameter& p : model.parameters().all())
      specs.push_back({p.name, DType::f32, p.desc.shape});
    io::write_weight_files(folder.path(), specs, [&](const io::TensorSpec& spec) {
      const int index = model.parameters().find(spec.name);
      return host_view<std::byte>(weights.pointers()[static_cast<std::size_t>(index)]);
    });
    const std::string exported = outside / "hf";
    const Finished result = ckpt({"export", folder.path(), "--to", exported});
    ASSERT_EQ(result.code, 0) << result.err;
    for (const auto& entry : fs::directory_iterator(outside.path()))
      EXPECT_EQ(entry.path().string().find(".partial-"), std::string::npos) << entry.path();

    const decoder::Model plain = lamina::testing::open_model(fs::path(exported));
    EXPECT_EQ(plain.family().name(), "llama2");
    const weights::Weights folded = weights::Weights::load(
        plain, std::make_shared<io::WeightFiles>(exported), DType::f32, cpu::cpu_backend());
    const auto rows = lamina::testing::random_rows(model, 2, 9);
    EXPECT_LT(lamina::testing::relative_difference(
                  lamina::testing::forward(plain, folded.pointers(), rows),
                  lamina::testing::forward(model, weights.pointers(), rows)),
              1e-5)
        << general;
    int predicting = 0;
    for (const decoder::Parameter& p : plain.parameters().all()) {
      if (!p.name.starts_with("mtp.")) continue;
      const auto count = static_cast<std::size_t>(p.num_elements());
      const auto values = [&](const decoder::Model& of, const weights::Weights& all) {
        const int index = of.parameters().find(p.name);
        return std::span(lamina::testing::floats(all.pointers()[static_cast<std::size_t>(index)]),
                         count);
      };
      EXPECT_TRUE(std::ranges::equal(values(plain, folded), values(model, weights))) << p.name;
      ++predicting;
    }
    EXPECT_GT(predicting, 9);  // a whole layer
  }
}

class PublishedModel : public ::testing::TestWithParam<lamina::testing::TestModel> {};

// The export has the published tensors: names, types, shapes and bytes.
TEST_P(PublishedModel, KeepsItsTensorsAndConfig) {
  const std::string source = GetParam().path.string();
  const TempDir folder;
  const std::string exported = folder / "hf";
  const Finished result = ckpt({"export", source, "--to", exported});
  ASSERT_EQ(result.code, 0) << result.err;
  const io::WeightFiles before(source), after(exported);
  EXPECT_FALSE(after.names().empty());
  for (std::string_view name : after.names()) {
    ASSERT_TRUE(before.contains(name)) << name;
    const io::TensorView was = before.tensor(name), is = after.tensor(name);
    EXPECT_EQ(was.dtype, is.dtype) << name;
    EXPECT_EQ(was.shape, is.shape) << name;
    EXPECT_TRUE(std::ranges::equal(was.bytes, is.bytes)) << name;
  }
  expect_same_parameters(source, exported);
}

std::vector<lamina::testing::TestModel> published_models() {
  std::vector<lamina::testing::TestModel> out;
  for (const lamina::testing::TestModel& m : lamina::testing::test_models())
    if (fs::is_directory(m.path)) out.push_back(m);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Golden, PublishedModel, ::testing::ValuesIn(published_models()),
                         [](const auto& model) { return model.param.name; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PublishedModel);

}  // namespace
}  // namespace lamina::cli
