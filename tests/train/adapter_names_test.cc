// Names of tensors and targets in adapters written by training, and in PEFT adapters that are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "core/json.h"
#include "io/weight_files.h"
#include "model/adapter.h"
#include "model/open.h"
#include "support/expect_error.h"
#include "train/lora_run.h"
#include "weights/publish/hf_export.h"
#include "weights/publish/peft_names.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// The adapter of a run without steps on a golden model.
struct Written {
  explicit Written(const std::string& golden, const std::string& targets)
      : run(folder, {"lora.target_modules=[" + targets + "]"}, golden) {
    run.train(0);
    directory = copy_adapter(folder, run.checkpoint());
  }
  std::vector<std::string> tensors() const {
    const io::WeightFiles files(directory + "/adapter_model.safetensors");
    return {files.names().begin(), files.names().end()};
  }
  // Paths of modules, as in PEFT.
  std::vector<std::string> modules() const {
    std::vector<std::string> out;
    const std::string prefix = "base_model.model.";
    for (const std::string& name : tensors())
      if (const std::size_t end = name.find(".lora_A."); end != name.npos)
        out.push_back(name.substr(prefix.size(), end - prefix.size()));
    return out;
  }
  // The value of target_modules as JSON.
  std::vector<std::string> target_list() const {
    std::vector<std::string> out;
    const JsonDocument config = JsonDocument::read(directory + "/adapter_config.json");
    for (JsonValue target : config.root().at("target_modules").elements())
      out.emplace_back(target.as_string());
    return out;
  }
  std::string target_pattern() const {
    const JsonDocument config = JsonDocument::read(directory + "/adapter_config.json");
    return std::string(config.root().at("target_modules").as_string());
  }

  TempDir folder;
  LoraRun run;
  std::string directory;
};

#define SKIP_WITHOUT(golden) \
  if (!has_golden_model(golden)) GTEST_SKIP() << golden << " is not in tests/golden"

TEST(AdapterNames, HaveThePrefixOfTheClassWithAHead) {
  SKIP_WITHOUT("gpt2_prefixed");
  const Written prefixed("gpt2_prefixed", "\"attn.c_proj\", \"c_fc\"");
  EXPECT_THAT(prefixed.tensors(), Each(StartsWith("base_model.model.transformer.h.")));

  // The same model with the Hub's names: "h.0.attn.c_attn.weight".
  const TempDir folder;
  add_golden_model(folder, "gpt2_prefixed");
  {
    const io::WeightFiles files(folder / "model");
    std::vector<io::TensorSpec> specs;
    const std::string prefix = "transformer.";
    const auto stored = [&](const std::string& name) {
      return files.contains(name) ? name : prefix + name;
    };
    for (std::string_view name : files.names()) {
      const std::string bare(name.starts_with(prefix) ? name.substr(prefix.size()) : name);
      specs.push_back({bare, files.tensor(name).dtype, files.tensor(name).shape});
    }
    fs::create_directories(folder / "bare");
    io::write_weight_files(folder / "bare", specs, [&](const io::TensorSpec& spec) {
      return files.tensor(stored(spec.name)).bytes;
    });
  }
  fs::rename(folder / "bare/model.safetensors", folder / "model/model.safetensors");
  LoraRun run(folder, {"lora.target_modules=[\"attn.c_proj\", \"c_fc\"]"});
  run.train();
  const std::string adapter = copy_adapter(folder, run.checkpoint());
  const io::WeightFiles files(adapter + "/adapter_model.safetensors");
  EXPECT_THAT(std::vector<std::string>(files.names().begin(), files.names().end()),
              ::testing::UnorderedElementsAreArray(prefixed.tensors()));
  EXPECT_EQ(logits_of(load_f32(folder / "model", adapter)), logits_of(load_f32(run.checkpoint())));
}

TEST(AdapterNames, MatchTheDirectoryOfAMultimodalModel) {
  SKIP_WITHOUT("qwen3_5_moe");
  EXPECT_THAT(Written("qwen3_5_moe", "\"q_proj\", \"o_proj\"").tensors(),
              Each(StartsWith("base_model.model.model.language_model.layers.")));
  EXPECT_THAT(Written("llama4_hub", "\"q_proj\", \"o_proj\"").tensors(),
              Each(StartsWith("base_model.model.language_model.model.layers.")));
}

TEST(AdapterNames, HaveAPatternThatMissesTheOtherPartsOfAMultimodalModel) {
  for (const char* golden : {"qwen3_5_moe", "llama4_hub", "gemma4_31b"}) {
    SKIP_WITHOUT(golden);
    SCOPED_TRACE(golden);
    const Written written(golden, "\"q_proj\", \"o_proj\"");
    const std::regex pattern(written.target_pattern());
    for (const std::string& module : written.modules())
      EXPECT_TRUE(std::regex_match(module, pattern)) << module;
    for (const char* other :
         {"model.vision_tower.encoder.layers.0.self_attn.q_proj",
          "vision_model.model.layers.0.self_attn.q_proj", "model.visual.layers.0.self_attn.q_proj",
          "model.language_model.layers.0.self_attn.k_proj"})
      EXPECT_FALSE(std::regex_match(other, pattern)) << other;
    // The path of the module in transformers; files have "language_model.model.".
    EXPECT_TRUE(std::regex_match("model.language_model.layers.1.self_attn.q_proj", pattern));
  }
}

TEST(AdapterNames, EveryFormIsReadBack) {
  for (const auto& [golden, targets] :
       std::map<std::string, std::string>{{"qwen3_5_moe", "\"q_proj\", \"o_proj\""},
                                          {"llama4_hub", "\"q_proj\", \"o_proj\""},
                                          {"gemma4_31b", "\"q_proj\", \"down_proj\""},
                                          {"gpt2_prefixed", "\"c_fc\", \"attn.c_proj\""}}) {
    if (!has_golden_model(golden)) continue;
    SCOPED_TRACE(golden);
    const TempDir folder;
    LoraRun run(folder, {"lora.target_modules=[" + targets + "]"}, golden);
    run.train();
    const std::vector<float> trained = logits_of(load_f32(run.checkpoint()));
    EXPECT_NE(trained, logits_of(load_f32(folder / "model")));
    EXPECT_EQ(logits_of(load_f32(folder / "model", copy_adapter(folder, run.checkpoint()))),
              trained);
  }
}

TEST(AdapterNames, TargetsByLaminaNamesBecomeModulesOfPeft) {
  const Written written("llama3_gqa", "\"attention.wq\", \"feed_forward.w2\"");
  EXPECT_EQ(written.target_list(), (std::vector<std::string>{"down_proj", "q_proj"}));
}

TEST(AdapterNames, AllLinearIsListed) {
  EXPECT_EQ(Written("llama3_gqa", "\"all-linear\"").target_list(),
            (std::vector<std::string>{"down_proj", "gate_proj", "k_proj", "o_proj", "q_proj",
                                      "up_proj", "v_proj"}));
  EXPECT_EQ(Written("phi3_partial", "\"all-linear\"").target_list(),
            (std::vector<std::string>{"down_proj", "gate_up_proj", "o_proj", "qkv_proj"}));
}

TEST(AdapterNames, AreLongerWhereTheirEndsMeanOtherModulesToo) {
  SKIP_WITHOUT("deepseek_v2_group");
  EXPECT_EQ(Written("deepseek_v2_group", "\"mlp.down_proj\"").target_list(),
            (std::vector<std::string>{"mlp.down_proj"}));
  const Written experts("deepseek_v2_group", "\"experts.w3\"");
  const std::regex pattern(experts.target_pattern());
  EXPECT_FALSE(experts.modules().empty());
  for (const std::string& module : experts.modules())
    EXPECT_TRUE(std::regex_match(module, pattern)) << module;
  EXPECT_FALSE(std::regex_match("model.layers.1.mlp.shared_experts.up_proj", pattern));
}

// Returns the name for a small model of a plugin with an adapter of every matrix.
std::string named_as_experts(const char* name, const std::vector<std::string>& sets = {}) {
  const model::Description from = model::describe(test_model(name).path.string(), built_plugins(),
                                                  {.sets = sets, .environment = {}});
  decoder::ModelOptions options;
  options.adapter = model::adapter_of(model::make(from.source, built_plugins()),
                                      {.rank = kRank, .target_modules = {"all-linear"}}, "test");
  return weights::module_named_as_experts(model::make(from.source, built_plugins(), options));
}

// PEFT 0.21.2 decides by the class: in transformers 5.24 it applies gate_proj of the dense
// Qwen 3.5, and none of a DeepSeek without experts.
TEST(AdapterNames, MayBeOfExpertsAlone) {
  EXPECT_EQ(named_as_experts("qwen3_5"), "");
  const std::vector<std::string> dense = {"model.first_k_dense_replace=2",
                                          "model.num_hidden_layers=2"};
  EXPECT_THAT(named_as_experts("deepseek_v2_predicts", dense), StartsWith("mlp."));
}

// Returns the parts of a module with an adapter that the base of the run lacks.
std::vector<std::string> missing_in_base(const LoraRun& run) {
  const auto form = weights::PublishedForm::beside(run.checkpoint());
  EXPECT_TRUE(form);
  const auto missing = weights::module_missing_in_base(*run.training.model, &*form);
  return missing ? missing->parts : std::vector<std::string>{};
}

// PEFT looks for modules of transformers' class, which has the parts of a family that is published
// with them, whatever the files of the base have.
TEST(AdapterNames, OfFusedModulesFitFamiliesThatArePublishedWithThem) {
  const auto missing = [](const char* golden, const char* targets) {
    return missing_in_base(Written(golden, targets).run);
  };
  EXPECT_THAT(missing("llama3_gqa", "\"qkv_proj\""), ElementsAre("q_proj", "k_proj", "v_proj"));
  EXPECT_THAT(missing("llama3_gqa", "\"down_proj\", \"gate_up_proj\""),
              ElementsAre("gate_proj", "up_proj"));
  EXPECT_THAT(missing("llama3_gqa", "\"all-linear\""), IsEmpty());
  for (const char* golden : {"phi3_partial", "gpt2_prefixed"})
    if (has_golden_model(golden)) {
      EXPECT_THAT(missing(golden, "\"all-linear\""), IsEmpty()) << golden;
    }
  const TempDir folder;
  add_golden_model(folder, "llama3_gqa");
  const auto source = model::open(folder / "model", built_plugins(), {}, {});
  weights::export_to_hf(*source.model, folder / "model", folder / "fused",
                        {.layout = weights::Layout::fused});
  fs::copy_file(folder / "model/tokenizer.json", folder / "fused/tokenizer.json",
                fs::copy_options::skip_existing);
  LoraRun fused(folder, {"train.from=" + folder / "fused",
                         "lora.target_modules=[\"qkv_proj\", \"gate_up_proj\"]"});
  fused.train(0);
  EXPECT_THAT(missing_in_base(fused), ElementsAre("q_proj", "k_proj", "v_proj"));
  EXPECT_TRUE(weights::module_missing_in_base(*fused.training.model, nullptr));
  const auto printed = [&](const std::string& from, const char* out) {
    ::testing::internal::CaptureStderr();
    LoraRun run(folder, {"train.from=" + from, "run.out=" + (folder / out),
                         "lora.target_modules=[\"q_proj\"]"});
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string joined = "joins matrices that are published apart";
  EXPECT_THAT(printed(folder / "fused", "of_fused"),
              HasSubstr(folder / "fused" + ": model.layers.0.self_attn.qkv_proj.weight " + joined));
  EXPECT_THAT(printed(folder / "model", "of_parts"), Not(HasSubstr(joined)));
}

// An adapter, of q_proj and v_proj by default, which tests change.
struct Saved : Written {
  explicit Saved(const std::string& golden = "llama3_gqa",
                 const std::string& targets = "\"q_proj\", \"v_proj\"")
      : Written(golden, targets) {}

  void set(const std::string& key, const std::string& json) const {
    const std::string path = directory + "/adapter_config.json";
    std::string text;
    {
      std::ifstream in(path);
      text.assign(std::istreambuf_iterator<char>(in), {});
    }
    const std::regex old("\"" + key + "\": (\\[[^\\]]*\\]|\"[^\"]*\")");
    const std::string value = "\"" + key + "\": " + json;
    std::smatch found;
    if (std::regex_search(text, found, old))
      text.replace(static_cast<std::size_t>(found.position()),
                   static_cast<std::size_t>(found.length()), value);
    else
      text.insert(text.find('{') + 1, value + ",");
    std::ofstream(path) << text;
  }
  std::vector<float> logits() const { return logits_of(load_f32(folder / "model", directory)); }
};

TEST(AdapterOfPeft, IsReadWithAPatternForItsTargets) {
  const Saved saved;
  const std::vector<float> want = saved.logits();
  for (const char* targets : {"\".*\\\\.(q_proj|v_proj)$\"",
                              "\"model\\\\.layers\\\\.\\\\d+\\\\.self_attn\\\\.[qv]_proj\"",
                              "\"all-linear\"", "[\"self_attn.q_proj\", \"v_proj\", \"fc1\"]"}) {
    SCOPED_TRACE(targets);
    saved.set("target_modules", targets);
    EXPECT_EQ(saved.logits(), want);
  }
}

TEST(AdapterOfPeft, IsReadWithWholePathsForItsTargets) {
  const Saved saved;
  const std::vector<float> want = saved.logits();
  std::string paths;
  for (const std::string& module : saved.modules())
    paths += (paths.empty() ? "\"" : ", \"") + module + "\"";
  saved.set("target_modules", "[" + paths + "]");
  EXPECT_EQ(saved.logits(), want);
}

TEST(AdapterOfPeft, HasTensorsOfItsTargetsAlone) {
  const Saved saved;
  saved.set("target_modules", "[\"q_proj\"]");
  EXPECT_ERROR_SAYS(saved.logits(), ExitCode::checkpoint,
                    "has an adapter of 'model.layers.0.self_attn.v_proj', which target_modules of "
                    "adapter_config.json does not list")
  saved.set("target_modules", "\".*\"");
  saved.set("exclude_modules", "[\"v_proj\"]");
  EXPECT_ERROR_SAYS(saved.logits(), ExitCode::checkpoint, "does not list")
}

TEST(AdapterOfPeft, HasTensorsOfAllItsTargets) {
  const Saved saved;
  saved.set("target_modules", "[\"q_proj\", \"v_proj\", \"k_proj\"]");
  EXPECT_ERROR_SAYS(saved.logits(), ExitCode::checkpoint,
                    "has no adapter of 'model.layers.0.self_attn.k_proj', which target_modules of "
                    "adapter_config.json lists")
}

// Renames the tensors of an adapter; a tensor with the new name "" is dropped.
void rename_tensors(const std::string& directory,
                    const std::function<std::string(std::string)>& rename) {
  const std::string path = directory + "/adapter_model.safetensors", copy = directory + "/old";
  fs::create_directories(copy);
  fs::rename(path, copy + "/adapter_model.safetensors");
  const io::WeightFiles files(copy + "/adapter_model.safetensors");
  std::vector<io::TensorSpec> specs;
  std::map<std::string, std::string> old;
  for (std::string_view name : files.names()) {
    const std::string now = rename(std::string(name));
    if (now.empty()) continue;
    specs.push_back({now, files.tensor(name).dtype, files.tensor(name).shape});
    old[now] = name;
  }
  io::write_weight_files(
      directory, specs,
      [&](const io::TensorSpec& spec) { return files.tensor(old.at(spec.name)).bytes; },
      {.stem = "adapter_model"});
}

TEST(AdapterOfPeft, IsOfMatricesThatALinearReads) {
  SKIP_WITHOUT("deepseek_v2_group");
  const Saved saved("deepseek_v2_group", "\"kv_a_proj_with_mqa\"");
  rename_tensors(saved.directory, [](const std::string& name) {
    return std::regex_replace(name, std::regex("kv_a_proj_with_mqa"), "kv_b_proj");
  });
  saved.set("target_modules", "[\"kv_b_proj\"]");
  const std::string file = saved.directory + "/adapter_model.safetensors";
  EXPECT_USER_ERROR(saved.logits(), ExitCode::checkpoint,
                    file +
                        ": has an adapter of 'kv_b_proj': 'attention.wkv_b.weight' is read by the "
                        "op latent_attention; an adapter is of matrices that `linear` alone reads\n"
                        "  merge it into its model with PEFT, and use the merged model")
  const std::string next = saved.folder.write(
      "next.toml", "[data]\ntrain = [\"text.txt\"]\n[train]\nfrom = \"adapter\"\nsteps = 2\n");
  EXPECT_ERROR_SAYS(RunOfFile(next, {}), ExitCode::checkpoint,
                    file + ": has an adapter of 'kv_b_proj'")
}

TEST(AdapterOfPeft, HasBothFactorsOfEachMatrix) {
  const Saved saved;
  rename_tensors(saved.directory, [](const std::string& name) {
    return name.find("layers.1.self_attn.v_proj.lora_A") == name.npos ? name : "";
  });
  EXPECT_ERROR_SAYS(saved.logits(), ExitCode::checkpoint,
                    "tensor 'base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight' is "
                    "missing; other tensors of this matrix exist")
}

TEST(AdapterOfPeft, MayHaveOneMatrixInAllLayers) {
  const Saved saved;
  rename_tensors(saved.directory, [](const std::string& name) {
    return name.find("layers.1.self_attn.v_proj") == name.npos ? name : "";
  });
  EXPECT_ERROR_SAYS(
      saved.logits(), ExitCode::checkpoint,
      "has adapters for 2 of 3 modules like 'model.layers.1.self_attn.v_proj'; lamina requires "
      "them in all layers and experts or in none")
}

TEST(AdapterOfPeft, MustHaveMatricesOfTheLayers) {
  const Saved saved;
  saved.set("target_modules", "\".*\"");
  rename_tensors(saved.directory, [](const std::string& name) {
    return name.find("layers.0.self_attn.q_proj") == name.npos
               ? name
               : "base_model.model.model.embed_tokens" + name.substr(name.find(".lora_"));
  });
  EXPECT_ERROR_SAYS(saved.logits(), ExitCode::checkpoint,
                    "has an adapter of 'model.embed_tokens'; lamina supports adapters of whole "
                    "matrices of the layers")
}

TEST(AdapterOfPeft, HasNoTensorOfAnotherKind) {
  const Saved saved;
  rename_tensors(saved.directory, [](const std::string& name) {
    return name.find("layers.0.self_attn.q_proj.lora_A") == name.npos
               ? name
               : "base_model.model.model.embed_tokens.lora_embedding_A";
  });
  EXPECT_ERROR_SAYS(saved.logits(), ExitCode::checkpoint,
                    "tensor 'base_model.model.model.embed_tokens.lora_embedding_A' is not part of "
                    "an adapter of a matrix")
}

// Returns the logits with a tensor of an adapter of `module` beside the others.
std::vector<float> logits_with_another(const Saved& saved, const std::string& module) {
  fs::create_directories(saved.folder / "more");
  const io::WeightFiles files(saved.directory + "/adapter_model.safetensors");
  std::vector<io::TensorSpec> specs;
  for (std::string_view name : files.names())
    specs.push_back({std::string(name), files.tensor(name).dtype, files.tensor(name).shape});
  const io::TensorSpec first = specs.front();
  specs.push_back({"base_model.model." + module + ".lora_A.weight", first.dtype, first.shape});
  io::write_weight_files(
      saved.folder / "more", specs,
      [&](const io::TensorSpec& spec) {
        return files.tensor(files.contains(spec.name) ? spec.name : first.name).bytes;
      },
      {.stem = "adapter_model"});
  fs::copy_file(saved.directory + "/adapter_config.json", saved.folder / "more/adapter_config.json",
                fs::copy_options::overwrite_existing);
  return logits_of(load_f32(saved.folder / "model", saved.folder / "more"));
}

TEST(AdapterOfPeft, IgnoresOtherPartsOfAMultimodalModel) {
  SKIP_WITHOUT("qwen3_5_moe");
  const Saved saved("qwen3_5_moe", "\"q_proj\", \"o_proj\"");
  EXPECT_EQ(logits_with_another(saved, "model.visual.blocks.0.attn.qkv"), saved.logits());
  EXPECT_ERROR_SAYS(logits_with_another(saved, "model.language_model.layers.0.self_attn.other"),
                    ExitCode::checkpoint, "the model has no such module")
}

// A tied head has no tensor in the files, but it is no part of an encoder.
TEST(AdapterOfPeft, IsNotOfAHead) {
  for (const char* golden : {"qwen3_5_moe", "gemma4_31b", "gemma3_7_layers", "llama3_gqa"}) {
    if (!has_golden_model(golden)) continue;
    SCOPED_TRACE(golden);
    const Saved saved(golden, "\"q_proj\", \"o_proj\"");
    saved.set("target_modules", "\".*\"");
    EXPECT_ERROR_SAYS(logits_with_another(saved, "lm_head"), ExitCode::checkpoint,
                      "has an adapter of 'lm_head'; lamina supports adapters of whole matrices of "
                      "the layers")
  }
}

TEST(AdapterOfPeft, NamesTheDirectoryOfItsBase) {
  const Saved saved;
  const std::string secret = saved.folder.write("passwd", "root:x:0:0:root:/root:/bin/bash\n");
  saved.set("base_model_name_or_path", "\"" + secret + "\"");
  EXPECT_USER_ERROR(load_f32(saved.directory), ExitCode::checkpoint,
                    saved.directory +
                        "/adapter_config.json: 'base_model_name_or_path' must be the directory of "
                        "a model or a GGUF file, got '" +
                        secret +
                        "'\n  write the path of the adapter's model there; or give that model to a "
                        "command that has --adapter, with --adapter " +
                        saved.directory)
  const auto says = [&](const std::string& base, const std::string& what) {
    saved.set("base_model_name_or_path", base);
    EXPECT_ERROR_SAYS(load_f32(saved.directory), ExitCode::checkpoint,
                      "adapter_config.json: 'base_model_name_or_path' " + what);
  };
  says("\"org/name\"", "is 'org/name', which does not exist; expected the directory of a model");
  says("null", "is missing; expected the directory of a model or a GGUF file\n  write the path");
}

}  // namespace
}  // namespace lamina::testing
