// The host's [model] keys outside the layers, which every family has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/backend.h"
#include "config/listing.h"
#include "model/hidden_states.h"
#include "registry/library.h"
#include "support/dense_model.h"
#include "support/expect_error.h"
#include "support/models.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

constexpr std::int64_t kWidth = 24;

// A dense family with additional keys.
std::string described(const std::string& family, const std::string& more) {
  return "family = \"" + family +
         "\"\n[model]\nvocab_size = 61\nhidden_size = 24\nnum_hidden_layers = 2\n"
         "intermediate_size = 36\nnum_attention_heads = 4\nnum_key_value_heads = 2\n" +
         more;
}

struct Computed {
  model::HiddenStates states;
  std::vector<float> logits;
};

Computed compute(const std::string& text) {
  const decoder::Model model = open_description(text);
  const Backend& backend = cpu::cpu_backend();
  const weights::Weights weights = weights::Weights::initialise(model, 5, DType::f32, backend);
  const std::vector<std::int32_t> ids = {3, 60, 3, 17};
  Computed out{model::hidden_states(model, weights.pointers(), ids, {.layers = true}, backend), {}};
  out.logits = model::logits_of(model, weights.pointers(), out.states.normed, DType::f32, backend);
  return out;
}

class StackKeys : public ::testing::TestWithParam<const char*> {};

// Parameters are initialised by name, so the table is the same with and without positions.
TEST_P(StackKeys, PositionsOfBothKindsAreAdded) {
  const std::vector<float> plain = compute(described(GetParam(), "")).states.layers[0];
  const std::vector<float> sines =
      compute(described(GetParam(), "use_sinusoidal_positions = true\n")).states.layers[0];
  const std::vector<float> learned =
      compute(described(GetParam(), "trainable_position_size = 8\n")).states.layers[0];
  const std::vector<float> both =
      compute(
          described(GetParam(), "use_sinusoidal_positions = true\ntrainable_position_size = 8\n"))
          .states.layers[0];
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const auto column = static_cast<std::int64_t>(i) % kWidth, half = kWidth / 2;
    const double angle = static_cast<double>(static_cast<std::int64_t>(i) / kWidth) *
                         std::exp(-std::log(10000.0) * static_cast<double>(column % half) /
                                  static_cast<double>(half - 1));
    EXPECT_NEAR(sines[i] - plain[i], column < half ? std::sin(angle) : std::cos(angle), 1e-6) << i;
    EXPECT_NE(learned[i], plain[i]) << i;
    EXPECT_NEAR(both[i], sines[i] + learned[i] - plain[i], 1e-6) << i;
  }
}

// As MaxText pads them.
TEST(OddWidths, SinusoidsOfThePositionEndWithAZero) {
  for (const std::int64_t width : {1, 3, 25}) {
    const auto entered = [&](const char* more) {
      return compute(fmt::format("family = \"simple\"\n[model]\nvocab_size = 61\nhidden_size = "
                                 "{}\nnum_hidden_layers = 1\n{}",
                                 width, more))
          .states.layers[0];
    };
    const std::vector<float> plain = entered(""),
                             sines = entered("use_sinusoidal_positions = true\n");
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const auto column = static_cast<std::int64_t>(i) % width, half = width / 2;
      const double exponent = half < 2 ? 0 : static_cast<double>(column % half) / double(half - 1);
      const double angle = static_cast<double>(static_cast<std::int64_t>(i) / width) *
                           std::exp(-std::log(10000.0) * exponent);
      const double added = column == width - 1 ? 0
                           : column < half     ? std::sin(angle)
                                               : std::cos(angle);
      EXPECT_NEAR(sines[i] - plain[i], added, 1e-6) << width << " " << i;
    }
  }
}

TEST_P(StackKeys, LogitsAreDividedScaledAndCapped) {
  const std::string tied = "tie_word_embeddings = true\n";
  const Computed plain = compute(described(GetParam(), tied));
  const Computed normalized =
      compute(described(GetParam(), tied + "normalize_embedding_logits = true\n"));
  const Computed capped = compute(described(GetParam(), tied + "final_logit_softcapping = 0.25\n"));
  const Computed scaled =
      compute(described(GetParam(), tied + "logit_scale = 3.0\nfinal_logit_softcapping = 0.25\n"));
  for (std::size_t i = 0; i < plain.logits.size(); ++i) {
    EXPECT_NEAR(normalized.logits[i], plain.logits[i] / std::sqrt(24.0), 1e-6) << i;
    EXPECT_NEAR(capped.logits[i], 0.25 * std::tanh(plain.logits[i] / 0.25), 1e-6) << i;
    EXPECT_NEAR(scaled.logits[i], 0.25 * std::tanh(3 * plain.logits[i] / 0.25), 2e-6) << i;
  }
}

// Angles are position / (linear * min * (theta / min)^(2i / d)).
TEST_P(StackKeys, TimescalesOfRotationsAreALinearScalingOfAnotherBase) {
  const Computed keys = compute(described(
      GetParam(),
      "rope_theta = 8000.0\nrope_min_timescale = 2.0\nrope_linear_scaling_factor = 4.0\n"));
  const Computed scaled = compute(described(
      GetParam(),
      "rope_theta = 4000.0\nrope_scaling.rope_type = \"linear\"\nrope_scaling.factor = 8.0\n"));
  const Computed both = compute(described(
      GetParam(),
      "rope_theta = 4000.0\nrope_scaling.rope_type = \"linear\"\nrope_scaling.factor = 2.0\n"
      "rope_linear_scaling_factor = 4.0\n"));
  const Computed plain = compute(described(GetParam(), "rope_theta = 8000.0\n"));
  EXPECT_NE(keys.logits, plain.logits);
  if (std::string_view(GetParam()) == "olmo3") return;  // has another base in windows
  EXPECT_EQ(keys.logits, scaled.logits);
  EXPECT_EQ(both.logits, scaled.logits);
}

// Channels after the share are not rotated; the others rotate like channels of narrower heads.
TEST_P(StackKeys, APartOfAHeadMayRotate) {
  const std::string share = "rope_theta = 8000.0\npartial_rotary_factor = 0.67\n";
  DenseModel part(dense_description(GetParam(), share)),
      whole(dense_description(GetParam(), "rope_theta = 8000.0\n"));
  const std::vector<std::int32_t> ids = {3, 3, 3, 3}, one = {3};
  constexpr std::size_t kHeads = 4, kHeadDim = 6, kRotary = 4;
  const std::vector<float> got = part.recorded("query_proj", ids),
                           at_0 = whole.recorded("query_proj", one);
  for (std::size_t t = 0; t < ids.size(); ++t)
    for (std::size_t n = 0; n < kHeads; ++n) {
      const float *x = &at_0[n * kHeadDim], *y = &got[(t * kHeads + n) * kHeadDim];
      for (std::size_t h = kRotary; h < kHeadDim; ++h) EXPECT_NEAR(y[h], x[h], 1e-6);
      if (std::string_view(GetParam()) == "olmo3") continue;  // has another base in windows
      for (std::size_t i = 0; i < kRotary / 2; ++i) {
        const double angle = static_cast<double>(t) * std::pow(8000.0, -2.0 * double(i) / kRotary);
        const std::size_t j = i + kRotary / 2;
        EXPECT_NEAR(y[i], x[i] * std::cos(angle) - x[j] * std::sin(angle), 2e-6);
        EXPECT_NEAR(y[j], x[j] * std::cos(angle) + x[i] * std::sin(angle), 2e-6);
      }
    }
}

TEST_P(StackKeys, LearnedPositionsHaveAPublishedName) {
  const decoder::Model model =
      open_description(described(GetParam(), "trainable_position_size = 8\n"));
  const weights::TensorMap map = weights::published_tensors(model);
  const int positions = model.parameters().find("positions.weight");
  ASSERT_GE(positions, 0);
  EXPECT_EQ(map.tensor_of(map.pieces_of(positions).front()).name, "model.embed_positions.weight");
}

INSTANTIATE_TEST_SUITE_P(Families, StackKeys,
                         ::testing::Values("llama2", "mistral", "qwen2", "qwen3", "olmo3"),
                         [](const auto& test) { return std::string(test.param); });

TEST(StackKeys, TimescalesWorkInEveryFamilyWithPlainRotations) {
  for (const TestModel& model : one_model_of_each_family()) {
    SCOPED_TRACE(model.name);
    const decoder::Model plain = open_model(model.path);
    try {
      const decoder::Model other = open_changed(model, "rope_min_timescale = 2.0\n");
      EXPECT_FALSE(same_graph(other.forward_graph({.tokens = 8}).graph,
                              plain.forward_graph({.tokens = 8}).graph));
    } catch (const UserError& refused) {
      EXPECT_THAT(
          refused.what(),
          ::testing::AnyOf(
              ::testing::HasSubstr("no layer of this model has rotary positions"),
              ::testing::HasSubstr("needs rotations that are scaled linearly or not at all")));
    }
  }
}

TEST(StackKeys, KeysWithoutEffectAreRefused) {
  EXPECT_ERROR_SAYS(open_description(described("llama2", "rope_scaling.factor = 8.0\n")),
                    ExitCode::usage,
                    "'model.rope_scaling.factor' has no effect, because "
                    "'model.rope_scaling.rope_type' is \"default\"\n"
                    "  set the kind of scaling, eg: \"linear\", or remove it");
  const TempDir folder;
  const std::string file =
      folder.write("m.toml", described("llama2", "rope_scaling.rope_type = \"default\"\n"));
  EXPECT_ERROR_SAYS(open_source(config::load_model(file, {{"model.rope_scaling.factor=8.0"}, {}})),
                    ExitCode::usage, "--set model.rope_scaling.factor=8.0: 'model.rope_scaling.");
  const auto scaled = [](const std::string& kind, const std::string& more) {
    return described(
        "llama2", "rope_scaling.rope_type = \"" + kind + "\"\nrope_scaling.factor = 4.0\n" + more);
  };
  EXPECT_ERROR_SAYS(open_description(scaled("yarn", "rope_scaling.low_freq_factor = 2.0\n")),
                    ExitCode::usage,
                    "'model.rope_scaling.low_freq_factor' has no effect, because "
                    "'model.rope_scaling.rope_type' is \"yarn\"\n"
                    "  remove it, or set the kind \"llama3\"");
  EXPECT_ERROR_SAYS(open_description(scaled("linear", "rope_scaling.beta_fast = 16.0\n")),
                    ExitCode::usage, "'model.rope_scaling.rope_type' is \"linear\"\n");
  EXPECT_ERROR_SAYS(open_description(scaled("yarn", "rope_scaling.mscale = 0.5\n")),
                    ExitCode::usage,
                    "'model.rope_scaling.mscale' has no effect, because "
                    "'model.rope_scaling.mscale_all_dim' is 0.0\n  set both, or remove it");
  // A later setting of the kind leaves keys of the earlier kind without effect.
  const std::string yarn =
      folder.write("y.toml", scaled("yarn", "rope_scaling.beta_fast = 16.0\n"));
  const decoder::Model linear =
      open_source(config::load_model(yarn, {{"model.rope_scaling.rope_type=linear"}, {}}));
  EXPECT_EQ(linear.config().values().number("rope_scaling.beta_fast"), 32);
  // A checkpoint has all keys.
  open_description(described("llama2", "rope_scaling.factor = 1.0\n"));
  open_description(described("llama2", "rope_scaling = {rope_type = \"default\", factor = 8.0}\n"));
  EXPECT_ERROR_SAYS(open_description(described("qwen3", "normalize_embedding_logits = true\n")),
                    ExitCode::usage,
                    "'model.normalize_embedding_logits' is true, but the head is a separate "
                    "matrix: 'tie_word_embeddings' is false\n  remove it");
  EXPECT_ERROR_SAYS(open_description(described("qwen3", "mtp_loss_weight = 0.3\n")),
                    ExitCode::usage,
                    "'model.mtp_loss_weight' has no effect, because 'num_nextn_predict_layers' is "
                    "0");
}

struct Overruled {
  const char* lines;  // of a file
  const char* set;    // later
  const char* key;    // of the file, without effect then
  const char* value;
};
const Overruled kOverruled[] = {
    {"dropout_rate = 0.1\nlayer_dropout = \"none\"\n", "dropout_rate=0.0", "layer_dropout", "none"},
    {"initializer = \"maxtext\"\ndense_init_scale = 2.0\n", "initializer=declared",
     "dense_init_scale", "2.0"},
    {"moba_chunk_size = 2\nmoba_topk = 3\n", "moba_chunk_size=0", "moba_topk", "3"},
    {"engram_layers = [1]\nengram_vocab_bases = [31, 31]\nengram_head_dim = 4\n",
     "engram_layers=[]", "engram_head_dim", "4"},
};

TEST(StackKeys, KeysThatALaterSettingLeavesWithoutEffectAreDropped) {
  for (const auto& [lines, set, key, value] : kOverruled) {
    SCOPED_TRACE(set);
    const TempDir folder;
    const std::string file = folder.write("m.toml", described("llama2", lines)),
                      off = fmt::format("model.{}", set),
                      again = fmt::format("model.{}={}", key, value);
    const decoder::Model model = open_source(config::load_model(file, {{off}, {}}));
    EXPECT_FALSE(model.config().values().has(key));
    EXPECT_ERROR_SAYS(open_source(config::load_model(file, {{off, again}, {}})), ExitCode::usage,
                      fmt::format("--set {}: 'model.{}' ", again, key));
  }
  const TempDir folder;
  const std::string file = folder.write(
      "m.toml", described("llama2", "num_nextn_predict_layers = 1\nmtp_loss_weight = 0.3\n"));
  const decoder::Model model =
      open_source(config::load_model(file, {{"model.num_nextn_predict_layers=0"}, {}}));
  EXPECT_EQ(model.config().values().number("mtp_loss_weight"), 0.1);  // the default
}

registry::ModelConfig config_of(const config::ModelSource& source) {
  return registry::load_family(built_plugins(), source).configure(source.raw, source.where);
}

// Returns whether checkpoints have the key. Some keys describe the files of a config.json only.
bool is_written(const config::ModelSource& source, const std::string& key) {
  const registry::ModelKey* known = registry::load_family(built_plugins(), source).find_key(key);
  return known == nullptr || !known->json_only;
}

// Writes the values as a checkpoint has them, and reads them.
void expect_read_back(const config::ModelSource& source) {
  const registry::ModelConfig before = config_of(source);
  std::vector<config::Entry> written = {{"family", config::Value(source.family), {}}};
  for (config::Entry entry : before.values().entries()) {
    if (!is_written(source, entry.key)) continue;
    entry.key.insert(0, "model.");
    written.push_back(std::move(entry));
  }
  const TempDir folder;
  const registry::ModelConfig after =
      config_of(config::load_model(folder.write("model.toml", config::to_toml(written))));
  for (const config::Entry& entry : before.values().entries()) {
    if (!is_written(source, entry.key)) continue;
    const config::Entry* read = after.values().find(entry.key);
    EXPECT_TRUE(read && read->value == entry.value) << entry.key;
  }
}

TEST(StackKeys, TheModelFileOfACheckpointIsReadBack) {
  for (const TestModel& model : test_models()) {
    if (model.path.extension() != ".toml") continue;
    SCOPED_TRACE(model.name);
    expect_read_back(config::load_model(model.path));
  }
  const std::string kind = "rope_scaling.rope_type = ", factor = "rope_scaling.factor = 2.0\n",
                    divisors =
                        "rope_scaling.short_factor = [1.0, 1.0, 1.0]\n"
                        "rope_scaling.long_factor = [2.0, 2.0, 2.0]\n";
  for (const auto& [family, keys] :
       {std::pair{"gpt_oss", kind + "\"linear\"\n" + factor},
        {"gpt_oss", kind + "\"dynamic\"\n" + factor},
        {"gpt_oss", kind + "\"llama3\"\n" + factor},
        {"gpt_oss", "head_dim = 6\n" + kind + "\"longrope\"\n" + factor + divisors},
        {"olmo3", "sliding_rope_type = \"linear\"\nsliding_" + factor},
        {"olmo3", "sliding_rope_type = \"dynamic\"\nsliding_" + factor},
        {"olmo3", "sliding_rope_type = \"llama3\"\nsliding_" + factor},
        {"olmo3", "sliding_rope_type = \"yarn\"\nsliding_" + factor},
        {"olmo3", "sliding_rope_type = \"llama3\"\n" + kind + "\"yarn\"\n" + factor +
                      "rope_scaling.beta_fast = 16.0\nrope_scaling.attention_factor = 1.5\n"},
        {"olmo3", "sliding_rope_type = \"yarn\"\nsliding_" + factor + kind + "\"llama3\"\n" +
                      factor + "rope_scaling.low_freq_factor = 2.0\n"}}) {
    SCOPED_TRACE(std::string(family) + "\n" + keys);
    const TempDir folder;
    expect_read_back(config::load_model(folder.write("m.toml", described(family, keys))));
  }
  EXPECT_ERROR_SAYS(
      open_description(described("olmo3", "sliding_rope_type = \"yarn\"\nsliding_" + factor +
                                              "sliding_rope_scaling.low_freq_factor = 2.0\n")),
      ExitCode::usage,
      "'model.sliding_rope_scaling.low_freq_factor' has no effect, because "
      "'model.sliding_rope_type' is \"yarn\"\n  remove it, or set the kind \"llama3\"");
  EXPECT_ERROR_SAYS(open_description(described("gpt_oss", kind + "\"linear\"\n" + factor +
                                                              "rope_scaling.truncate = false\n")),
                    ExitCode::usage, "'model.rope_scaling.truncate' has no effect, because ");
}

}  // namespace
}  // namespace lamina::testing
