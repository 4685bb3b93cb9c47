// The key `initializer`: moments of fresh weights equal MaxText's. The formulas come from its
// layers/initializers.py, linears.py, attentions.py, embeddings.py and moe.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/expect_error.h"
#include "support/models.h"
#include "weights/initialise.h"

namespace lamina::testing {
namespace {

enum class Law { normal, cut, ones, zeros };

struct Start {
  const char* parameter;
  Law law;
  double variance = 0;
};

constexpr double kVocab = 301, kModelWidth = 48, kMlp = 72, kScale = 0.25;

std::vector<float> fresh(const decoder::Model& model, const std::string& name,
                         std::uint64_t seed = 3) {
  const int index = model.parameters().find(name);
  if (index < 0) throw std::runtime_error("no parameter " + name);
  const decoder::Parameter& p = model.parameters()[index];
  std::vector<float> out(static_cast<std::size_t>(p.num_elements()));
  weights::initialise(p, seed, out);
  return out;
}

// Within four standard errors of normal draws.
void expect_starts(const decoder::Model& model, const Start& want) {
  SCOPED_TRACE(want.parameter);
  const std::vector<float> values = fresh(model, want.parameter);
  const auto [low, high] = std::ranges::minmax(values);
  if (want.law == Law::ones || want.law == Law::zeros) {
    EXPECT_EQ(low, want.law == Law::ones ? 1 : 0);
    EXPECT_EQ(high, low);
    return;
  }
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double x : values) sum += x, squares += x * x;
  const double deviation = std::sqrt(want.variance);
  EXPECT_NEAR(sum / count, 0, 4 * deviation / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / count), deviation, 4 * deviation / std::sqrt(2 * count));
  // A normal distribution is truncated at two deviations, and then scaled to the right deviation.
  const double bound = 2 * deviation / 0.87962566103423978;
  const double largest = std::max<double>(-low, high);
  if (want.law == Law::cut) {
    EXPECT_LE(largest, bound * (1 + 1e-6));
    EXPECT_GE(largest, 0.95 * bound);
  } else {
    EXPECT_GT(largest, bound);
  }
}

void expect_starts(const std::string& text, const std::vector<Start>& all) {
  const decoder::Model model = open_description(text);
  for (const Start& start : all) expect_starts(model, start);
}

std::string fresh_model(const std::string& family, const std::string& more) {
  return "family = \"" + family +
         "\"\n[model]\nvocab_size = 301\nhidden_size = 48\nnum_hidden_layers = 2\n"
         "num_attention_heads = 4\ninitializer = \"maxtext\"\n" +
         more;
}

TEST(Initialisers, DenseModelsStartAsMaxTexts) {
  const std::string text = fresh_model("llama2",
                                       "num_key_value_heads = 2\nintermediate_size = 72\n"
                                       "attention_bias = true\nhead_dim = 16\n"
                                       "trainable_position_size = 64\n");
  expect_starts(text, {{"embed.weight", Law::normal, 1},
                       {"positions.weight", Law::normal, 1},
                       {"layers.0.attention.wq.weight", Law::normal, 1 / kModelWidth},
                       {"layers.1.attention.wk.weight", Law::normal, 1 / kModelWidth},
                       {"layers.1.attention.wv.weight", Law::normal, 1 / kModelWidth},
                       {"layers.0.attention.wo.weight", Law::normal, 1.0 / (4 * 16)},
                       {"layers.0.attention.wq.bias", Law::zeros},
                       {"layers.0.feed_forward.w1.weight", Law::cut, 1 / kModelWidth},
                       {"layers.0.feed_forward.w3.weight", Law::cut, 1 / kModelWidth},
                       {"layers.1.feed_forward.w2.weight", Law::cut, 1 / kMlp},
                       {"layers.0.attention_norm.weight", Law::ones},
                       {"norm.weight", Law::ones},
                       {"head.weight", Law::cut, 1 / kModelWidth}});
}

TEST(Initialisers, ExpertsAndRoutersHaveTheScaleAndMaxTextsFans) {
  const std::string text =
      fresh_model("mixtral",
                  "num_key_value_heads = 2\nintermediate_size = 40\nnum_local_experts = 8\n"
                  "num_experts_per_tok = 2\ndense_init_scale = 0.25\n");
  expect_starts(text, {{"layers.0.moe.router.weight", Law::cut, kScale / kModelWidth},
                       {"layers.0.moe.experts.w1.weight", Law::cut, kScale / (8 * 40)},
                       {"layers.1.moe.experts.w3.weight", Law::cut, kScale / (8 * 40)},
                       {"layers.0.moe.experts.w2.weight", Law::cut, kScale / (8 * kModelWidth)},
                       {"layers.0.attention.wq.weight", Law::normal, 1 / kModelWidth},
                       {"head.weight", Law::cut, 1 / kModelWidth}});
}

TEST(Initialisers, LatentAttentionIsNormalAndSharedExpertsHaveTheScale) {
  const std::string text = fresh_model(
      "deepseek",
      "intermediate_size = 72\nfirst_k_dense_replace = 1\nmoe_intermediate_size = 24\n"
      "q_lora_rank = 32\nkv_lora_rank = 20\nqk_nope_head_dim = 8\nqk_rope_head_dim = 8\n"
      "v_head_dim = 12\nn_routed_experts = 8\nn_shared_experts = 2\nnum_experts_per_tok = 2\n"
      "n_group = 1\ntopk_group = 1\nindex_n_heads = 4\nindex_head_dim = 12\nindex_topk = 9\n"
      "num_nextn_predict_layers = 1\ndense_init_scale = 0.25\n");
  expect_starts(text, {{"layers.0.attention.wq_a.weight", Law::normal, 1 / kModelWidth},
                       {"layers.0.attention.wq_b.weight", Law::normal, 1 / 32.0},
                       {"layers.1.attention.wkv_a.weight", Law::normal, 1 / kModelWidth},
                       {"layers.1.attention.wkv_b.weight", Law::normal, 1 / 20.0},
                       {"layers.1.attention.wo.weight", Law::normal, 1.0 / (4 * 12)},
                       {"layers.1.attention.indexer.wk.weight", Law::normal, 1 / kModelWidth},
                       {"layers.1.attention.q_norm.weight", Law::ones},
                       {"layers.0.feed_forward.w1.weight", Law::cut, 1 / kModelWidth},
                       {"layers.0.feed_forward.w2.weight", Law::cut, 1 / kMlp},
                       {"layers.1.moe.router.correction_bias", Law::zeros},
                       {"layers.1.moe.experts.w1.weight", Law::cut, kScale / (8 * 24)},
                       {"layers.1.moe.shared.w1.weight", Law::cut, kScale / kModelWidth},
                       {"layers.1.moe.shared.w2.weight", Law::cut, kScale / (2 * 24)},
                       {"mtp.0.eh_proj.weight", Law::cut, 1 / (2 * kModelWidth)}});
}

TEST(Initialisers, GainsThatAreAddedToOneStartAtZero) {
  const std::string text =
      fresh_model("gemma", "num_key_value_heads = 1\nintermediate_size = 72\nhead_dim = 16\n");
  expect_starts(text, {{"embed.weight", Law::normal, 1},
                       {"layers.0.attention_norm.weight", Law::zeros},
                       {"layers.0.attention.wq.weight", Law::normal, 1 / kModelWidth},
                       {"layers.0.feed_forward.w2.weight", Law::cut, 1 / kMlp},
                       {"norm.weight", Law::zeros}});
}

// A sink is one more logit; MaxText's starts at 0.
TEST(Initialisers, SinksStartAtZero) {
  expect_starts(
      "family = \"gpt_oss\"\n[model]\nvocab_size = 301\nhidden_size = 48\n"
      "num_hidden_layers = 2\nnum_attention_heads = 4\nnum_key_value_heads = 2\n"
      "head_dim = 8\nintermediate_size = 24\nnum_local_experts = 8\n"
      "num_experts_per_tok = 2\ninitializer = \"maxtext\"\n",
      {{"layers.0.attention.sinks", Law::zeros},
       {"layers.0.moe.experts.w1.weight", Law::cut, 1.0 / (8 * 24)}});
}

// Every family supports it: each parameter that it draws has a rule.
TEST(Initialisers, CoverEveryNormalDrawOfEveryFamily) {
  for (const TestModel& model : test_models()) {
    if (model.path.extension() != ".toml") continue;
    SCOPED_TRACE(model.name);
    const decoder::Model started = open_changed(model, "initializer = \"maxtext\"\n");
    const decoder::Model declared = open_model(model.path);
    for (std::size_t i = 0; i < declared.parameters().all().size(); ++i) {
      const registry::ParamDesc& was = declared.parameters().all()[i].desc;
      const registry::ParamDesc& is = started.parameters().all()[i].desc;
      const bool drawn =
          was.init.kind == registry::InitSpec::Kind::normal && !was.name.starts_with("engram.");
      if (!drawn)
        EXPECT_EQ(is.init, was.init) << was.name;
      else
        EXPECT_TRUE(is.init != was.init || is.init.a == 1) << was.name;
    }
  }
}

TEST(Initialisers, AsTheFamilyDeclaresIsTheDefaultToTheBit) {
  const std::string plain =
      "family = \"llama2\"\n[model]\nvocab_size = 301\nhidden_size = 48\nnum_hidden_layers = 2\n"
      "num_attention_heads = 4\nintermediate_size = 72\n";
  const decoder::Model a = open_description(plain);
  const decoder::Model b = open_description(plain + "initializer = \"declared\"\n");
  for (const decoder::Parameter& p : a.parameters().all())
    EXPECT_EQ(fresh(a, p.name), fresh(b, p.name)) << p.name;
}

TEST(Initialisers, AScaleWithoutThemIsRefused) {
  EXPECT_ERROR_SAYS(open_description("family = \"llama2\"\n[model]\nvocab_size = 301\n"
                                     "hidden_size = 48\nnum_hidden_layers = 2\n"
                                     "num_attention_heads = 4\nintermediate_size = 72\n"
                                     "dense_init_scale = 0.5\n"),
                    ExitCode::usage,
                    "'model.dense_init_scale' is 0.5, but 'initializer' is not \"maxtext\"\n"
                    "  remove it");
}

}  // namespace
}  // namespace lamina::testing
