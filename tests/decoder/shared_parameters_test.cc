// Refusals for layers that use the parameters of another layer.
#include <gtest/gtest.h>

#include "decoder/one_block_family.h"
#include "decoder/stack/parameter.h"
#include "support/expect_error.h"

namespace lamina::decoder {
namespace {

// Layer 1 uses the parameters of layer 0; only layer 1 gets vocab_size 7.
void open_sharing(Build block, const ModelOptions& options = {}) {
  build = block;
  sdk::loading_host = &kHost;
  sdk::Model<OneBlockConfig> model = kFamily;
  model.plan = [](const OneBlockConfig&) {
    return sdk::prefix("owner", sdk::unit(1), 1) +
           sdk::prefix("user",
                       sdk::Unit{{.block = 1, .overrides = {{"vocab_size", 7}}, .params_of = 0}},
                       1);
  };
  const sdk::FamilyTables<OneBlockConfig> tables(model);
  const auto family = std::make_shared<registry::Family>(
      tables.family(), std::make_shared<registry::PluginIdentity>());
  const Model opened(family, family->configure({}, "test"), options);
}

// A vector "w" or "other" of size `size`, in the layer that uses another layer's parameters.
sdk::Tensor with_gain(sdk::Scope s, sdk::Tensor x, std::string_view name, std::int64_t size,
                      sdk::Init init) {
  sdk::Tensor w = s.param(name, {size}, {.axes = {sdk::axis::none}, .init = init});
  return x * sdk::reduce_sum(w, {.dims = {0}});
}

using sdk::init::constant;

TEST(SharedParameters, MustHaveOneShape) {
  EXPECT_ERROR_SAYS(
      open_sharing([](sdk::Scope s, const OneBlockConfig& c, sdk::Tensor x, const sdk::Step&) {
        return with_gain(s, x, "w", c.vocab_size, constant(1));
      }),
      ExitCode::plugin,
      "layer 1 uses the parameters of layer 0, whose 'w' is [5]; its own would be [7]");
}

TEST(SharedParameters, AreDescribedAlike) {
  EXPECT_ERROR_SAYS(
      open_sharing([](sdk::Scope s, const OneBlockConfig& c, sdk::Tensor x, const sdk::Step&) {
        return with_gain(s, x, "w", 3, constant(double(c.vocab_size)));
      }),
      ExitCode::plugin, "layer 1 uses the parameters of layer 0, which describes 'w' differently");
}

// An owner may have a matrix for later layers alone: adapters of it have no place.
TEST(SharedParameters, HaveNoAdapterOfAMatrixThatTheOwnerDoesNotUse) {
  const Build block = [](sdk::Scope s, const OneBlockConfig& c, sdk::Tensor x, const sdk::Step&) {
    const std::int64_t d = c.hidden_size;
    sdk::Tensor late =
        (s / "late")
            .param("weight", {d, d},
                   {.axes = {sdk::axis::embed, sdk::axis::embed}, .init = sdk::init::normal(0.1)});
    x = x + sdk::linear(s / "w", x, d);
    return c.vocab_size == 7 ? x + sdk::linear(x, late) : x;
  };
  const auto adapted = [&](const char* matrix) {
    open_sharing(block, {.adapter = Adapter{.targets = {{1, matrix}}, .all = true}});
  };
  EXPECT_NO_THROW(adapted("w.weight"));
  EXPECT_ERROR_SAYS(adapted("late.weight"), ExitCode::usage,
                    "lora.target_modules: layer 1 uses 'late.weight' of layer 0, which does not "
                    "use it itself, so it cannot have an adapter");
}

// Zamba2: a shared block with an adapter for each use. The adapters start differently, because
// initial values depend on the name of the layer.
TEST(SharedParameters, MayHaveAnAdapterForEachUse) {
  build = [](sdk::Scope s, const OneBlockConfig& c, sdk::Tensor x, const sdk::Step&) {
    const std::int64_t d = c.hidden_size;
    sdk::Tensor low = sdk::linear(s.unshared() / "adapter" / "down", x, 2);
    return x + sdk::linear(s / "w", x, d) + sdk::linear(s.unshared() / "adapter" / "up", low, d);
  };
  sdk::loading_host = &kHost;
  sdk::Model<OneBlockConfig> model = kFamily;
  model.plan = [](const OneBlockConfig&) {
    return sdk::prefix("owner", sdk::unit(1), 1) +
           sdk::prefix("users", sdk::Unit{{.block = 1, .params_of = 0}}, 2);
  };
  const sdk::FamilyTables<OneBlockConfig> tables(model);
  const auto family = std::make_shared<registry::Family>(
      tables.family(), std::make_shared<registry::PluginIdentity>());
  config::Raw keys = config::parse_toml("[model]\nnum_hidden_layers = 3\n", "run.toml",
                                        config::Origin::Kind::run_file);
  const Model opened(family, family->configure(keys, "test"));
  const ParameterTable& parameters = opened.parameters();
  for (const char* name : {"layers.0.w.weight", "layers.0.adapter.up.weight",
                           "layers.1.adapter.up.weight", "layers.2.adapter.down.weight"})
    EXPECT_GE(parameters.find(name), 0) << name;
  EXPECT_LT(parameters.find("layers.1.w.weight"), 0);
  EXPECT_NO_THROW((void)opened.loss_graph({.batch = 2, .tokens = 3}, {}));
}

TEST(SharedParameters, AreTheOwners) {
  EXPECT_ERROR_SAYS(
      open_sharing([](sdk::Scope s, const OneBlockConfig& c, sdk::Tensor x, const sdk::Step&) {
        return with_gain(s, x, c.vocab_size == 7 ? "other" : "w", 3, constant(1));
      }),
      ExitCode::plugin, "layer 1 uses the parameters of layer 0, which has no 'other'");
}

}  // namespace
}  // namespace lamina::decoder
