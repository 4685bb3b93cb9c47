// Layers that use the parameters of another layer: equal to a model whose layers have copies, with
// summed gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "backends/cpu/backend.h"
#include "support/models.h"
#include "weights/initialise.h"

namespace lamina::testing {
namespace {

constexpr std::int64_t kLayers = 5, kFirst = 2;  // layers from here use the previous layer's
const std::string kOwner = "layers.1.", kFive = "num_hidden_layers = 5\n";

decoder::Model features(const std::string& keys) {
  return open_description("family = \"features\"\n[model]\nvocab_size = 47\nhidden_size = 16\n" +
                          keys);
}

// The name of the parameter that the shared model has instead.
std::string shared_name(std::string name) {
  for (std::int64_t i = kFirst; i < kLayers; ++i) {
    const std::string layer = fmt::format("layers.{}.", i);
    if (name.starts_with(layer)) name.replace(0, layer.size(), kOwner);
  }
  return name;
}

// Weights, and the gradients of the mean loss, by name.
struct Trained {
  using Tensors = std::map<std::string, std::vector<float>>;
  Tensors weights, gradients;
  double loss = 0;

  // With `weights` by the names of the shared model, or fresh ones.
  explicit Trained(const decoder::Model& model, const Tensors* from = nullptr) {
    train::TrainState state(model.parameters(), DType::f32, false, cpu::cpu_backend());
    const auto& all = model.parameters().all();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::span<float> out(floats(state.masters()[i]),
                                 static_cast<std::size_t>(all[i].num_elements()));
      if (from)
        std::ranges::copy(from->at(shared_name(all[i].name)), out.begin());
      else
        weights::initialise(all[i], 7, out);
    }
    state.refresh_copies();
    const Rows rows = random_rows(model, 2, 12);
    train::TrainStep step(model, state,
                          {.shape = {2, 12}, .features = train::all_losses(false), .seed = 11}, {},
                          cpu::cpu_backend());
    const program::Microbatch batch = rows.microbatch();
    loss = step.gradients({&batch, 1}, 0).loss;
    const auto w = copy_of(model, state.masters()), g = copy_of(model, state.gradients());
    for (std::size_t i = 0; i < all.size(); ++i) {
      weights[all[i].name] = w[i];
      gradients[all[i].name] = g[i];
    }
  }
};

TEST(SharedParameters, GradientsEqualTheSumsOverCopies) {
  const Trained shared(features(kFive + "first_sharer = 2\n"));
  const Trained copies(features(kFive), &shared.weights);
  EXPECT_NEAR(shared.loss, copies.loss, 1e-6 * copies.loss);
  Trained::Tensors sums;
  for (const auto& [name, gradient] : copies.gradients) {
    auto& sum = sums[shared_name(name)];
    sum.resize(gradient.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
  }
  ASSERT_EQ(sums.size(), shared.gradients.size());
  for (const auto& [name, sum] : sums)
    EXPECT_LE(relative_difference(shared.gradients.at(name), sum), 1e-5) << name;
}

TEST(SharedParameters, AreThereAndCountedOnce) {
  const decoder::Model shared = features(kFive + "first_sharer = 2\n");
  const decoder::Model two = features("num_hidden_layers = 2\n");
  EXPECT_EQ(shared.parameters().num_elements(), two.parameters().num_elements());
  EXPECT_GE(shared.parameters().find("layers.1.w.weight"), 0);
  EXPECT_EQ(shared.parameters().find("layers.2.w.weight"), -1);
}

// A layer may use only some of its owner's parameters: it reads the owner's keys and values.
TEST(SharedParameters, GoTogetherWithSharedKeysAndValues) {
  const Trained shared(features(kFive + "first_sharer = 2\nfirst_reader = 2\n"));
  const Trained copies(features(kFive + "first_reader = 2\n"), &shared.weights);
  EXPECT_NEAR(shared.loss, copies.loss, 1e-6 * copies.loss);
}

}  // namespace
}  // namespace lamina::testing
