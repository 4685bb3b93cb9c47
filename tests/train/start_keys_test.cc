// train.from with keys of [model]: keys that only training reads may differ, keys that change the
// model are refused, and an adapter cannot start fresh weights.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/hf_directory.h"
#include "support/expect_error.h"
#include "train/lora_run.h"
#include "weights/publish/hf_export.h"

namespace lamina::testing {
namespace {

// A run on a copied golden model without an adapter, with these keys of [model].
RunOfFile run_with(const TempDir& folder, const std::string& golden,
                   const std::vector<std::string>& keys) {
  LoraRun::write_file(folder, golden);
  std::string run = folder.read("run.toml");
  const std::size_t lora = run.find("[lora]");
  run.erase(lora, run.find("[optimizer]") - lora);
  const std::string file = folder.write("run.toml", run);
  std::vector<std::string> sets;
  for (const std::string& key : keys) sets.push_back("model." + key);
  return RunOfFile(file, sets);
}

struct KeyOfTraining {
  const char* golden;
  const char* key;
  const char* value;
};
const KeyOfTraining kTrainingKeys[] = {
    {"llama3_gqa", "dropout_rate", "0.1"},
    {"llama3_gqa", "attention_dropout_rate", "0.1"},
    {"llama3_gqa", "initializer_range", "0.5"},
    {"gpt2_prefixed", "dropout_rate", "0.3"},
    {"mixtral_8x", "router_aux_loss_coef", "0.5"},
    {"qwen3_moe_norm", "router_aux_loss_coef", "0.5"},
    {"deepseek_v3_mtp", "router_bias_update_rate", "0.01"},
    {"deepseek_v3_mtp", "mtp_loss_weight", "0.5"},
};

TEST(KeysOfTraining, CanBeSetForAnExistingModel) {
  for (const auto& [golden, key, value] : kTrainingKeys) {
    if (!has_golden_model(golden)) continue;
    SCOPED_TRACE(std::string(golden) + ": " + key);
    const TempDir folder;
    EXPECT_NO_THROW({
      RunOfFile run = run_with(folder, golden, {std::string(key) + "=" + value});
      EXPECT_EQ(run.training.model->config().values().number(key), std::stod(value));
    });
  }
}

struct KeysTogether {
  const char* golden;
  std::vector<std::string> keys;
};
// deepseek_v3_mtp has a prediction layer: with dropout_rate it requires layer_dropout = "none", and
// layer_dropout alone is refused in every model.
const KeysTogether kKeysTogether[] = {
    {"llama3_gqa", {"dropout_rate=0.1", "layer_dropout=none"}},
    {"llama3_gqa", {"dropout_rate=0.1", "layer_dropout=update"}},
    {"mixtral_8x", {"initializer=maxtext", "dense_init_scale=2.0"}},
    {"deepseek_v3_mtp", {"router_bias_update_rate=0.01", "router_bias_counts_padding=true"}},
    {"deepseek_v3_mtp", {"dropout_rate=0.1", "layer_dropout=none"}},
    {"deepseek_v3_mtp", {"dropout_rate=0.1", "num_nextn_predict_layers=0"}},
    {"deepseek_v3_mtp",
     {"dropout_rate=0.1", "layer_dropout=none", "num_nextn_predict_layers=0",
      "router_bias_update_rate=0.01", "router_bias_counts_padding=true"}},
};

TEST(KeysOfTraining, CanDependOnEachOther) {
  for (const auto& [golden, keys] : kKeysTogether) {
    if (!has_golden_model(golden)) continue;
    SCOPED_TRACE(fmt::format("{}: {}", golden, fmt::join(keys, ", ")));
    const TempDir folder;
    EXPECT_NO_THROW(run_with(folder, golden, keys));
  }
}

TEST(KeysOfTraining, SwitchOffTheDropoutOfTheDirectory) {
  const TempDir folder;
  RunOfFile first = run_with(folder, "llama3_gqa", {"dropout_rate=0.1", "layer_dropout=none"});
  first.train(1);
  const std::string file = folder / "run.toml";
  const std::vector<std::string> sets = {"train.from=" + first.checkpoint(),
                                         "run.out=" + folder / "second", "model.dropout_rate=0.0"};
  EXPECT_TRUE(RunOfFile(file, sets).train(1).stopped);
  RunOfFile resumed(file, sets);
  EXPECT_EQ(resumed.run->loop().progress().step, 1);
  EXPECT_FALSE(resumed.training.model->has_dropout());
}

TEST(KeysOfTraining, SwitchOffDropoutInAResumedRun) {
  const TempDir folder;
  run_with(folder, "llama3_gqa", {"dropout_rate=0.1", "layer_dropout=none"}).train(1);
  RunOfFile resumed(folder / "run.toml", {"model.dropout_rate=0.0"});
  EXPECT_EQ(resumed.run->loop().progress().step, 1);
  EXPECT_FALSE(resumed.training.model->has_dropout());
}

TEST(KeysOfTraining, HaveTheirEffect) {
  const TempDir a, b;
  RunOfFile plain = run_with(a, "llama3_gqa", {});
  RunOfFile dropped = run_with(b, "llama3_gqa", {"dropout_rate=0.5"});
  EXPECT_NE(plain.steps().front().loss, dropped.steps().front().loss);
}

TEST(KeysOfTraining, AreInTheConfigOfTheExport) {
  const TempDir folder;
  RunOfFile run = run_with(folder, "qwen3_moe_norm", {"router_aux_loss_coef=0.5"});
  run.train(1);
  const model::OpenedModel opened = model::open(run.checkpoint(), built_plugins());
  weights::export_to_hf(*opened.model, run.checkpoint(), folder / "export", {});
  const io::HfDirectory exported(folder / "export");
  EXPECT_EQ(exported.config().at("router_aux_loss_coef").as_double(), 0.5);
}

TEST(KeysOfTraining, CanBeSetUnderAnAdapter) {
  const TempDir folder;
  EXPECT_NO_THROW(LoraRun(folder, {"model.dropout_rate=0.1"}));
}

TEST(KeysOfTheModel, ComeFromTheDirectory) {
  for (const char* key : {"rope_theta=1234.0", "rms_norm_eps=0.5", "num_attention_heads=2",
                          "tie_word_embeddings=false", "hidden_size=24"}) {
    SCOPED_TRACE(key);
    const TempDir folder;
    EXPECT_ERROR_SAYS(run_with(folder, "llama3_gqa", {key}), ExitCode::usage,
                      "is not the model that [model] describes\n  " +
                          std::string(key).substr(0, std::string_view(key).find('=')) + " is ")
  }
}

TEST(KeysOfTheModel, MayRepeatAValueThatIsNoKeyOfTheDirectory) {
  for (const auto& [golden, key] :
       {std::pair{"llama3_gqa", "use_v_norm=false"}, std::pair{"mixtral_8x", "use_v_norm=false"},
        std::pair{"mixtral_8x", "use_qk_norm=false"},
        std::pair{"qwen3_moe_norm", "use_qk_norm=true"},
        std::pair{"qwen3_moe_norm", "qk_norm_with_scale=true"}}) {
    if (!has_golden_model(golden)) continue;
    SCOPED_TRACE(std::string(golden) + ": " + key);
    const TempDir folder;
    EXPECT_NO_THROW(run_with(folder, golden, {key}));
  }
}

TEST(KeysOfTheModel, OfAModelFileCountWithItsDefaults) {
  const TempDir folder;
  LoraRun::write_file(folder, "llama3_gqa");
  const auto file_without = [&](const std::string& line) {
    std::string text = folder.read("model/config.json");
    text.erase(text.find(line), line.size());
    return "path=" + folder.write("other.json", text);
  };
  EXPECT_NO_THROW(run_with(folder, "llama3_gqa", {file_without("\"attention_bias\": false,")}));
  EXPECT_ERROR_SAYS(run_with(folder, "llama3_gqa", {file_without("\"rope_theta\": 500000.0,")}),
                    ExitCode::usage,
                    "is not the model that [model] describes\n"
                    "  rope_theta is 10000.0 by default, but 500000.0 there\n"
                    "  remove the model file, or give it the values of the directory; ");
}

// Their tensors have the same names, but their defaults differ.
TEST(KeysOfTheModel, OfAModelFileBelongToTheDirectorysFamily) {
  const TempDir folder;
  LoraRun::write_file(folder, "llama3_gqa");
  std::string text = folder.read("model/config.json");
  for (const auto& [llama, mistral] :
       {std::pair{"\"LlamaForCausalLM\"", "\"MistralForCausalLM\""},
        std::pair{"\"llama\"", "\"mistral\""}, std::pair{"\"rope_theta\": 500000.0,", ""}}) {
    const std::size_t at = text.find(llama);
    ASSERT_NE(at, text.npos) << llama;
    text.replace(at, std::string_view(llama).size(), mistral);
  }
  const std::string file = "path=" + folder.write("other.json", text);
  EXPECT_ERROR_SAYS(run_with(folder, "llama3_gqa", {file}), ExitCode::usage,
                    "--set model." + file + ": model: describes a model of family 'mistral', but " +
                        folder / "model" +
                        " is of family 'llama2'\n"
                        "  remove it: with train.from the directory defines the family");
  const std::string toml =
      "path=" + folder.write("other.toml", "family = \"mistral\"\n[model]\nvocab_size = 160\n");
  EXPECT_ERROR_SAYS(run_with(folder, "llama3_gqa", {toml}), ExitCode::usage,
                    "--set model." + toml + ": model: describes a model of family 'mistral', but ");
}

// The message names only the keys that change the model.
TEST(KeysOfTheModel, AreNamedAloneWhereKeysOfTrainingDifferToo) {
  const TempDir folder;
  try {
    run_with(folder, "llama3_gqa", {"dropout_rate=0.1", "rope_theta=1234.0"});
    ADD_FAILURE() << "no error";
  } catch (const UserError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("rope_theta is 1234.0"));
    EXPECT_THAT(e.what(), ::testing::Not(::testing::HasSubstr("dropout_rate")));
  }
}

TEST(KeysOfTheModel, AreNamedAloneWhereKeysOfTrainingDependOnEachOther) {
  const TempDir folder;
  EXPECT_ERROR_SAYS(run_with(folder, "deepseek_v3_mtp",
                             {"rms_norm_eps=0.5", "num_attention_heads=3", "num_key_value_heads=3",
                              "dropout_rate=0.1", "layer_dropout=none"}),
                    ExitCode::usage,
                    "is not the model that [model] describes\n"
                    "  rms_norm_eps is 0.5 at --set model.rms_norm_eps=0.5, but 1e-06 there\n"
                    "  num_attention_heads is 3 at --set model.num_attention_heads=3, but 4 there\n"
                    "  num_key_value_heads is 3 at --set model.num_key_value_heads=3, but 4 there\n"
                    "  remove them; ")
}

TEST(LoraWithFreshTensors, IsRefusedWithAdvice) {
  const TempDir folder;
  const std::string file = LoraRun::write_file(folder, "mistral_window");
  EXPECT_ERROR_SAYS(
      RunOfFile(file, {"model.vocab_size=159", "train.fresh=[\"embed.weight\", \"lm_head.*\"]"}),
      ExitCode::usage,
      "train.fresh: cannot be combined with [lora]: 'embed.weight' would be initialised and never "
      "trained, because only the adapter is trained\n"
      "  first train the new tensors without an adapter and write the model with `lamina ckpt "
      "export`; `[[optimizer.groups]]` with frozen = true freezes the others\n"
      "  then train the adapter with train.from = that directory")
}

}  // namespace
}  // namespace lamina::testing
