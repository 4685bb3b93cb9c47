// The host's [model] keys of norms of queries, keys and values, shared values and activations:
// their effects in the blocks of any family.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/same_function.h"
#include "support/dense_model.h"
#include "support/expect_error.h"
#include "support/models.h"
#include "weights/match/tensor_map.h"

namespace lamina::testing {
namespace {

constexpr std::int64_t kPartWidth = 24, kPartHeadDim = 6;
constexpr double kPartEps = 1e-5;
const std::vector<std::int32_t> kPartIds = {3, 60, 3, 17, 9};

// Every row of `width` over its root mean square.
std::vector<float> over_root_mean_square(const std::vector<float>& x, std::size_t width) {
  std::vector<float> out;
  for (std::size_t at = 0; at < x.size(); at += width) {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += double{x[at + i]} * double{x[at + i]};
    const double root = std::sqrt(squares / static_cast<double>(width) + kPartEps);
    for (std::size_t i = 0; i < width; ++i)
      out.push_back(static_cast<float>(double{x[at + i]} / root));
  }
  return out;
}

void expect_all_near(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 1;
  for (const float x : want) largest = std::max(largest, std::abs(double{x}));
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 4e-6 * largest) << i;
}

TEST(PartKeys, NormsOfQueriesAndKeysMakeTwoFamiliesOne) {
  const std::string same = "rope_theta = 10000.0\n";
  DenseModel llama(dense_description("llama2", same)), qwen(dense_description("qwen3", same));
  DenseModel llama_with(dense_description("llama2", same + "use_qk_norm = true\n"));
  DenseModel qwen_without(dense_description("qwen3", same + "use_qk_norm = false\n"));
  EXPECT_EQ(llama_with.last(kPartIds), qwen.last(kPartIds));
  EXPECT_EQ(qwen_without.last(kPartIds), llama.last(kPartIds));
  EXPECT_NE(qwen.last(kPartIds), llama.last(kPartIds));
  EXPECT_FALSE(qwen_without.has("layers.0.attention.q_norm.weight"));
  for (float& x : llama_with["layers.1.attention.q_norm.weight"]) x = 2;
  for (float& x : qwen["layers.1.attention.q_norm.weight"]) x = 2;
  EXPECT_EQ(llama_with.last(kPartIds), qwen.last(kPartIds));
}

// Rotations keep the length of a head's vector, so norms before and after them are equal.
TEST(PartKeys, NormsApplyToEveryHead) {
  for (const char* family : {"llama2", "qwen2", "mistral"}) {
    SCOPED_TRACE(family);
    DenseModel plain(dense_description(family, ""));
    DenseModel normed_all(dense_description(family, "use_qk_norm = true\nuse_v_norm = true\n"));
    for (const char* tag : {"query_proj", "key_proj", "value_proj"})
      expect_all_near(normed_all.recorded(tag, kPartIds),
                      over_root_mean_square(plain.recorded(tag, kPartIds), kPartHeadDim));
  }
}

TEST(PartKeys, NormsWithoutWeightsEqualWeightsOfOne) {
  DenseModel with(dense_description("qwen3", "use_v_norm = true\n"));
  DenseModel without(dense_description(
      "qwen3", "use_v_norm = true\nqk_norm_with_scale = false\nv_norm_with_scale = false\n"));
  EXPECT_EQ(without.last(kPartIds), with.last(kPartIds));
  for (const char* name : {"q_norm", "k_norm", "v_norm"}) {
    const std::string full = std::string("layers.0.attention.") + name + ".weight";
    EXPECT_TRUE(with.has(full));
    EXPECT_FALSE(without.has(full));
  }
}

TEST(PartKeys, EpsilonsOfNormsHaveSeparateKeys) {
  const std::string large = "rms_norm_eps = 0.5\n";
  const auto replaced = [](std::string text, const std::string& what, const std::string& by) {
    return text.replace(text.find(what), what.size(), by);
  };
  DenseModel all(replaced(dense_description("qwen3", ""), "rms_norm_eps = 1e-5\n", large));
  DenseModel inner(dense_description("qwen3", "qkv_norm_eps = 0.5\n"));
  DenseModel last(dense_description("qwen3", "final_norm_eps = 0.5\n"));
  DenseModel plain(dense_description("qwen3", ""));
  EXPECT_NE(inner.last(kPartIds), plain.last(kPartIds));
  EXPECT_NE(inner.last(kPartIds), all.last(kPartIds));
  EXPECT_EQ(last.last(kPartIds), plain.last(kPartIds));
  const model::HiddenStates states = last.states(kPartIds);
  std::vector<float> want;
  for (std::size_t at = 0; at < states.layers.back().size(); at += kPartWidth) {
    double squares = 0;
    for (std::size_t i = 0; i < kPartWidth; ++i)
      squares += double{states.layers.back()[at + i]} * double{states.layers.back()[at + i]};
    for (std::size_t i = 0; i < kPartWidth; ++i)
      want.push_back(
          static_cast<float>(states.layers.back()[at + i] / std::sqrt(squares / kPartWidth + 0.5)));
  }
  expect_all_near(states.normed, want);
}

TEST(PartKeys, SharedValuesComeFromTheMatrixOfKeys) {
  for (const char* family : {"llama2", "qwen3", "olmo3"}) {
    SCOPED_TRACE(family);
    DenseModel plain(dense_description(family, "")),
        shared(dense_description(family, "share_kv_projections = true\n"));
    EXPECT_FALSE(shared.has("layers.0.attention.wv.weight"));
    EXPECT_NE(shared.last(kPartIds), plain.last(kPartIds));
    for (const char* layer : {"layers.0", "layers.1"})
      plain[std::string(layer) + ".attention.wv.weight"] =
          plain[std::string(layer) + ".attention.wk.weight"];
    EXPECT_EQ(shared.last(kPartIds), plain.last(kPartIds));
  }
}

// One more term in the softmax's sum: all other probabilities shrink by the same factor.
TEST(PartKeys, SinksTakeTheirShareOfAttention) {
  for (const char* family : {"llama2", "qwen3", "olmo3"}) {
    SCOPED_TRACE(family);
    DenseModel plain(dense_description(family, ""));
    DenseModel with(dense_description(family, "attention_sink = true\n"));
    constexpr std::size_t kHeads = 4, kGroup = 2;
    EXPECT_EQ(with["layers.0.attention.sinks"], (std::vector<float>{0, 0, 0, 0}));
    const std::vector<float> sinks = {-1, 0, 0.5, 2};
    with["layers.0.attention.sinks"] = sinks;
    const std::vector<float> q = plain.recorded("query_proj", kPartIds),
                             k = plain.recorded("key_proj", kPartIds),
                             y = plain.recorded("attention_out", kPartIds),
                             got = with.recorded("attention_out", kPartIds);
    std::vector<float> want = y;
    for (std::size_t t = 0; t < kPartIds.size(); ++t)
      for (std::size_t n = 0; n < kHeads; ++n) {
        double sum = 0;
        for (std::size_t s = 0; s <= t; ++s) {
          double score = 0;
          for (std::size_t h = 0; h < kPartHeadDim; ++h)
            score += double{q[(t * kHeads + n) * kPartHeadDim + h]} *
                     double{k[(s * kHeads / kGroup + n / kGroup) * kPartHeadDim + h]};
          sum += std::exp(score / std::sqrt(double{kPartHeadDim}));
        }
        const double left = sum / (sum + std::exp(double{sinks[n]}));
        for (std::size_t h = 0; h < kPartHeadDim; ++h)
          want[(t * kHeads + n) * kPartHeadDim + h] *= static_cast<float>(left);
      }
    expect_all_near(got, want);
  }
}

// A layer of simple_mlp is its feed-forward: ff_2 (product of activations of matrices of x).
TEST(PartKeys, ActivationsHaveAMatrixEachAndAreMultiplied) {
  const std::string text =
      "family = \"simple_mlp\"\n[model]\nvocab_size = 61\nhidden_size = 24\nnum_hidden_layers = 1\n"
      "intermediate_size = 36\ninitializer_range = 0.3\n"
      "mlp_activations = [\"sigmoid\", \"linear\", \"relu\"]\n";
  DenseModel model(text);
  const model::HiddenStates states = model.states(kPartIds);
  const char* names[] = {"layers.0.ff_1.weight", "layers.0.ff_1_1.weight",
                         "layers.0.ff_1_2.weight"};
  constexpr std::size_t kInner = 36;
  std::vector<float> want;
  for (std::size_t t = 0; t < kPartIds.size(); ++t) {
    const float* x = states.layers[0].data() + t * kPartWidth;
    std::vector<double> h(kInner, 1);
    for (int j = 0; j < 3; ++j)
      for (std::size_t f = 0; f < kInner; ++f) {
        double y = 0;
        for (std::size_t d = 0; d < kPartWidth; ++d)
          y += double{model[names[j]][f * kPartWidth + d]} * double{x[d]};
        h[f] *= j == 0 ? 1 / (1 + std::exp(-y)) : j == 1 ? y : std::max(y, 0.0);
      }
    for (std::size_t d = 0; d < kPartWidth; ++d) {
      double y = 0;
      for (std::size_t f = 0; f < kInner; ++f)
        y += double{model["layers.0.ff_2.weight"][d * kInner + f]} * h[f];
      want.push_back(static_cast<float>(y));
    }
  }
  expect_all_near(states.layers[1], want);
}

TEST(PartKeys, ActivationsMakeTwoFormsOfOneFamilyOne) {
  for (const std::string activation : {"relu", "relu2"}) {
    DenseModel one(dense_description("default", "mlp_activations = [\"" + activation + "\"]\n"));
    DenseModel plain(
        dense_description("default", "gated_mlp = false\nhidden_act = \"" + activation + "\"\n"));
    EXPECT_FALSE(one.has("layers.0.feed_forward.w3.weight"));
    for (const std::string layer : {"layers.0.feed_forward.", "layers.1.feed_forward."}) {
      plain[layer + "wi.weight"] = one[layer + "w1.weight"];
      plain[layer + "wo.weight"] = one[layer + "w2.weight"];
    }
    EXPECT_EQ(one.last(kPartIds), plain.last(kPartIds)) << activation;
  }
  DenseModel gated(dense_description(
      "default", "gated_mlp = false\nmlp_activations = [\"silu\", \"linear\"]\n"));
  DenseModel usual(dense_description("default", ""));
  for (const std::string layer : {"layers.0.feed_forward.", "layers.1.feed_forward."}) {
    gated[layer + "wi.weight"] = usual[layer + "w1.weight"];
    gated[layer + "wi_1.weight"] = usual[layer + "w3.weight"];
    gated[layer + "wo.weight"] = usual[layer + "w2.weight"];
  }
  EXPECT_EQ(gated.last(kPartIds), usual.last(kPartIds));
}

TEST(PartKeys, KeysWithTheFamilysValueChangeNoBit) {
  const auto last = [](const char* family, const std::string& more) {
    return DenseModel(dense_description(family, more)).last(kPartIds);
  };
  const std::string gate = "mlp_activations = [\"silu\", \"linear\"]\n";
  EXPECT_EQ(last("llama2", gate + "use_qk_norm = false\nuse_v_norm = false\n"), last("llama2", ""));
  EXPECT_EQ(last("qwen3", gate + "use_qk_norm = true\nqk_norm_with_scale = true\n"),
            last("qwen3", ""));
}

TEST(PartKeys, ParametersOfTheHostHavePublishedNamesBesideTheFamilys) {
  const auto published = [](const std::string& text, const std::string& parameter) {
    const decoder::Model model = open_description(text);
    const weights::TensorMap map = weights::published_tensors(model);
    const int index = model.parameters().find(parameter);
    return index < 0 ? "none" : map.tensor_of(map.pieces_of(index).front()).name;
  };
  const std::string all =
      "use_qk_norm = true\nuse_v_norm = true\n"
      "mlp_activations = [\"silu\", \"linear\", \"linear\"]\n";
  EXPECT_EQ(published(dense_description("llama2", all), "layers.1.attention.q_norm.weight"),
            "model.layers.1.self_attn.q_norm.weight");
  EXPECT_EQ(published(dense_description("llama2", all), "layers.1.attention.v_norm.weight"),
            "model.layers.1.self_attn.v_norm.weight");
  EXPECT_EQ(published(dense_description("llama2", all), "layers.1.feed_forward.w3_1.weight"),
            "model.layers.1.mlp.up_proj_1.weight");
  const std::string gpt =
      "family = \"gpt3\"\n[model]\nvocab_size = 61\nhidden_size = 24\nnum_hidden_layers = 2\n"
      "num_attention_heads = 4\n" +
      all;
  EXPECT_EQ(published(gpt, "layers.0.attn.k_norm.weight"), "h.0.attn.k_norm.weight");
  EXPECT_EQ(published(gpt, "layers.0.mlp.c_fc_2.bias"), "h.0.mlp.c_fc_2.bias");
  const std::string sinks = "attention_sink = true\n";
  EXPECT_EQ(published(dense_description("llama2", sinks), "layers.1.attention.sinks"),
            "model.layers.1.self_attn.sinks");
  EXPECT_EQ(published(gpt + sinks, "layers.1.attn.sinks"), "h.1.attn.sinks");
}

// One value of a flag changes nothing: the one that the family's blocks have anyway.
TEST(PartKeys, MayRepeatWhatTheBlocksOfAFamilyDo) {
  for (const TestModel& model : one_model_of_each_family()) {
    const decoder::Model plain = open_model(model.path);
    for (const char* key : {"use_qk_norm", "use_v_norm"}) {
      SCOPED_TRACE(model.name + ": " + key);
      int accepted = 0, same = 0;
      for (const bool value : {false, true}) {
        try {
          const decoder::Model other = open_changed(model, fmt::format("{} = {}\n", key, value));
          ++accepted;
          same += model::computes_the_same(plain, other);
        } catch (const UserError&) {
          continue;
        }
      }
      EXPECT_EQ(same, accepted > 0 ? 1 : 0);
    }
  }
}

// A family that lacks one of them gives the reason.
TEST(PartKeys, WorkInEveryFamilyThatCanHaveThem) {
  const auto has_norm = [](const decoder::Model& model, const std::string& key) {
    return std::ranges::any_of(model.parameters().all(), [&](const decoder::Parameter& p) {
      return key.starts_with("use_qk_norm") && p.desc.name.ends_with("q_norm.weight");
    });
  };
  const std::string keys[] = {"use_qk_norm = true\n",
                              "use_v_norm = true\nv_norm_with_scale = true\n",
                              "share_kv_projections = true\n", "attention_sink = true\n",
                              "mlp_activations = [\"sigmoid\", \"linear\", \"relu\"]\n"};
  for (const TestModel& model : one_model_of_each_family()) {
    const decoder::Model plain = open_model(model.path);
    for (const std::string& key : keys) {
      SCOPED_TRACE(model.name + ": " + key);
      if (!plain.config().is_host_key(key.substr(0, key.find(' '))) || has_norm(plain, key))
        continue;
      try {
        EXPECT_FALSE(same_graph(open_changed(model, key).forward_graph({.tokens = 8}).graph,
                                plain.forward_graph({.tokens = 8}).graph));
      } catch (const UserError& refused) {
        EXPECT_THAT(refused.what(),
                    ::testing::AnyOf(::testing::HasSubstr("no layer of this model has"),
                                     ::testing::HasSubstr("which has latents with their own norms"),
                                     ::testing::HasSubstr("one matrix of this model gives keys"),
                                     ::testing::HasSubstr("this model is exported as 'llama2'"),
                                     ::testing::HasSubstr("does more, eg: it squares them"),
                                     ::testing::HasSubstr("come from no matrix"),
                                     ::testing::HasSubstr("already has sinks"),
                                     ::testing::HasSubstr("remove the keys")));
      }
    }
  }
}

TEST(PartKeys, WhereTheyCannotBeIsRefused) {
  EXPECT_ERROR_SAYS(open_description(dense_description("llama2", "mlp_activations = []\n")),
                    ExitCode::usage, "a feed-forward has at least one activation");
  EXPECT_ERROR_SAYS(open_description(dense_description("llama2", "qk_norm_with_scale = false\n")),
                    ExitCode::usage,
                    "model.qk_norm_with_scale: queries of a layer of this model have no norm\n"
                    "  remove it");
  for (const char* without : {"", "use_v_norm = false\n"})
    EXPECT_ERROR_SAYS(
        open_description(
            dense_description("llama2", std::string("qkv_norm_eps = 0.5\n") + without)),
        ExitCode::usage,
        "'model.qkv_norm_eps' is 0.5, but no layer of this model has norms of queries, keys or "
        "values\n  remove it");
  EXPECT_ERROR_SAYS(
      open_description(dense_description("qwen3", "qkv_norm_eps = 0.5\nuse_qk_norm = false\n")),
      ExitCode::usage, "values\n  remove it\n  model.use_qk_norm is false at ");
  EXPECT_ERROR_SAYS(
      open_description(dense_description(
          "llama2", "hidden_act = \"relu2\"\nmlp_activations = [\"silu\", \"linear\"]\n")),
      ExitCode::usage,
      "model.mlp_activations: needs a feed-forward of activated products with matrices; this "
      "model's feed-forward does more, eg: it squares them (relu2) or clamps them");
  for (const char* with : {"use_qk_norm = true\n", "use_v_norm = true\n"})
    open_description(dense_description("llama2", std::string("qkv_norm_eps = 0.5\n") + with));
  EXPECT_ERROR_SAYS(
      open_description("family = \"simple\"\n[model]\nvocab_size = 61\nhidden_size = 24\n"
                       "num_hidden_layers = 1\nmlp_activations = [\"relu\"]\n"),
      ExitCode::usage, "no layer of this model has a dense feed-forward");
}

}  // namespace
}  // namespace lamina::testing
