// Layers whose queries and keys come from two inputs: cross_attention() of the SDK.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/backend.h"
#include "decoder/one_block_family.h"
#include "model/hidden_states.h"
#include "support/models.h"

namespace lamina::testing {
namespace {

using Matrix = std::vector<double>;

constexpr std::size_t kWidth = 4, kHeads = 2, kHeadDim = 3;
const std::vector<std::int32_t> kIds = {3, 0, 4, 1, 1, 2};

const sdk::SelfAttentionOptions kOptions = {.heads = kHeads, .kv_heads = 1, .head_dim = kHeadDim};

// A model of two layers of one block, and its parameters.
struct TwoLayers {
  decoder::Model model;
  std::vector<std::vector<float>> values;

  explicit TwoLayers(decoder::Build block) : model(decoder::open_family_with(block)) {
    const auto start = weights::Weights::initialise(model, 5, DType::f32, cpu::cpu_backend());
    for (std::size_t i = 0; i < start.pointers().size(); ++i) {
      const auto* from = floats(start.pointers()[i]);
      values.emplace_back(from, from + model.parameters().all()[i].num_elements());
      for (float& v : values.back()) v *= 40;  // the initial deviation is 0.02
    }
  }
  Matrix operator[](const std::string& parameter) const {
    const std::vector<float>& v =
        values.at(static_cast<std::size_t>(model.parameters().find(parameter)));
    return {v.begin(), v.end()};
  }
  // The input of the first layer and the output of each layer.
  std::vector<std::vector<float>> layers() {
    return model::hidden_states(model, parameters_of(values), kIds, {.layers = true},
                                cpu::cpu_backend())
        .layers;
  }
};

// x[T, in] w[out, in]^T.
Matrix product(const Matrix& x, const Matrix& w, std::size_t in) {
  const std::size_t out = w.size() / in;
  Matrix y(x.size() / in * out, 0);
  for (std::size_t i = 0; i < y.size(); ++i)
    for (std::size_t k = 0; k < in; ++k) y[i] += x[i / out * in + k] * w[i % out * in + k];
  return y;
}

// The output of attention: queries from x, one head of keys and values from the context.
Matrix looked_up(const TwoLayers& of, const std::string& layer, const Matrix& x,
                 const Matrix& context) {
  const Matrix q = product(x, of[layer + "wq.weight"], kWidth),
               k = product(context, of[layer + "wk.weight"], kWidth),
               v = product(context, of[layer + "wv.weight"], kWidth);
  Matrix y(q.size(), 0);
  for (std::size_t t = 0; t < kIds.size(); ++t)
    for (std::size_t n = 0; n < kHeads; ++n) {
      const std::size_t at = (t * kHeads + n) * kHeadDim;
      double sum = 0;
      for (std::size_t s = 0; s <= t; ++s) {
        double score = 0;
        for (std::size_t h = 0; h < kHeadDim; ++h) score += q[at + h] * k[s * kHeadDim + h];
        const double p = std::exp(score / std::sqrt(double{kHeadDim}));
        sum += p;
        for (std::size_t h = 0; h < kHeadDim; ++h) y[at + h] += p * v[s * kHeadDim + h];
      }
      for (std::size_t h = 0; h < kHeadDim; ++h) y[at + h] /= sum;
    }
  return product(y, of[layer + "wo.weight"], kHeads * kHeadDim);
}

TEST(CrossAttention, HasKeysAndValuesOfItsContext) {
  TwoLayers two(LAMINA_BLOCK({
    return x + sdk::cross_attention(s / "attention", x, step.input(LAMINA_INPUT_EMBEDDING), step,
                                    kOptions);
  }));
  const auto layers = two.layers();
  ASSERT_EQ(layers.size(), 3u);
  const Matrix context(layers[0].begin(), layers[0].end());
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const Matrix x(layers[layer].begin(), layers[layer].end());
    const Matrix added = looked_up(two, fmt::format("layers.{}.attention.", layer), x, context);
    double largest = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(layers[layer + 1][i], x[i] + added[i], 5e-5) << layer << ' ' << i;
      largest = std::max(largest, std::abs(added[i]));
    }
    EXPECT_GT(largest, 0.01);
  }
}

TEST(CrossAttention, WithItsOwnInputEqualsSelfAttention) {
  TwoLayers cross(
      LAMINA_BLOCK({ return x + sdk::cross_attention(s / "attention", x, x, step, kOptions); }));
  TwoLayers self(
      LAMINA_BLOCK({ return x + sdk::self_attention(s / "attention", x, step, kOptions); }));
  EXPECT_EQ(cross.layers(), self.layers());
}

}  // namespace
}  // namespace lamina::testing
