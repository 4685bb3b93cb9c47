// What a block declares must be the same in every trace: everything is bound by its first.
#include <gtest/gtest.h>

#include "decoder/model.h"
#include "lamina/sdk.h"
#include "support/expect_error.h"

namespace lamina::decoder {
namespace {

namespace sdk = lamina::sdk;

struct Config {
  std::int64_t vocab_size, hidden_size, num_hidden_layers;
};

using Build = sdk::Tensor (*)(sdk::Scope s, const Config&, sdk::Tensor x, const sdk::Step&);
Build build;  // the block of the next family

constexpr sdk::Model<Config> kFamily = {
    .family = {.name = "varying"},
    .keys =
        [](sdk::Schema<Config>& key) {
          key("vocab_size", &Config::vocab_size, {.fallback = 5, .doc = "A number."});
          key("hidden_size", &Config::hidden_size, {.fallback = 4, .doc = "A number."});
          key("num_hidden_layers", &Config::num_hidden_layers, {.fallback = 2, .doc = "A number."});
        },
    .blocks =
        [] {
          return std::vector<sdk::Block<Config>>{{1, "varies", build}};
        },
    .plan = [](const Config&) { return sdk::prefix("a", sdk::unit(1), 2); },
    .head = [](const Config&) { return sdk::Head{.tied = true}; },
};

void open_family_with(Build block) {
  build = block;
  const sdk::FamilyTables<Config> tables(kFamily);
  const auto family = std::make_shared<registry::Family>(
      tables.family(), std::make_shared<registry::PluginIdentity>());
  const Model model(family, family->configure({}, "test"));
}

sdk::Tensor vector(sdk::Scope s, const char* name, std::int64_t size) {
  return s.param(name, {size}, {.axes = {sdk::axis::norm}, .role = sdk::Role::norm});
}

TEST(BlockDeclaration, SameInEveryTraceIsAccepted) {
  open_family_with([](sdk::Scope s, const Config&, sdk::Tensor x, const sdk::Step&) {
    return x * vector(s, "w", x.dim(2));
  });
}

TEST(BlockDeclaration, RefusesAParameterWhoseShapeDependsOnTheLength) {
  EXPECT_ERROR_SAYS(
      open_family_with([](sdk::Scope s, const Config&, sdk::Tensor x, const sdk::Step&) {
        vector(s, "per_token", x.dim(1));
        return x;
      }),
      ExitCode::plugin,
      "block 'varies' of family 'varying': parameter 'per_token' is [1] in one trace and [3] in");
}

TEST(BlockDeclaration, RefusesAParameterThatIsThereForSomeLengthsOnly) {
  EXPECT_ERROR_SAYS(
      open_family_with([](sdk::Scope s, const Config&, sdk::Tensor x, const sdk::Step&) {
        if (x.dim(1) > 1) vector(s, "late", 4);
        return x;
      }),
      ExitCode::plugin, "parameter 'late' is declared in one trace and not in another");
  EXPECT_ERROR_SAYS(
      open_family_with([](sdk::Scope s, const Config&, sdk::Tensor x, const sdk::Step&) {
        if (x.dim(1) == 1) vector(s, "early", 4);
        return x;
      }),
      ExitCode::plugin, "parameter 'early' is declared in one trace and not in another");
}

TEST(BlockDeclaration, RefusesAStateThatDependsOnTheBatch) {
  EXPECT_ERROR_SAYS(
      open_family_with([](sdk::Scope s, const Config&, sdk::Tensor x, const sdk::Step&) {
        s.state(LAMINA_STATE_CUSTOM, "memory", {x.dim(0)}, {.axes = {sdk::axis::embed}});
        return x;
      }),
      ExitCode::plugin, "state 'memory' is [1] in one trace and [2] in another");
}

TEST(BlockDeclaration, RefusesAGraphThatDependsOnACounter) {
  EXPECT_ERROR_SAYS(
      open_family_with([](sdk::Scope, const Config&, sdk::Tensor x, const sdk::Step&) {
        static double calls = 0;
        return sdk::scale(x, ++calls);
      }),
      ExitCode::plugin, "two builds for one config, batch and length gave different graphs");
}

TEST(BlockDeclaration, RefusesAStateWhoseDimsAreNotTheOps) {
  EXPECT_ERROR_SAYS(
      open_family_with([](sdk::Scope s, const Config&, sdk::Tensor x, const sdk::Step&) {
        const sdk::Tensor kv = sdk::reshape(x, {x.dim(0), x.dim(1), 2, 2});
        const sdk::State wrong =
            s.state(LAMINA_STATE_KV, "kv", {2, 3},
                    {.axes = {LAMINA_AXIS_CACHE_HEADS, LAMINA_AXIS_CACHE_DIM}});
        const std::vector<sdk::Tensor> q_k_v{kv, kv, kv};
        const auto out = sdk::emit_all<sdk::Op::attention, 1>(q_k_v, {}, wrong, sdk::At::current());
        return sdk::reshape(out[0], {x.dim(0), x.dim(1), 4});
      }),
      ExitCode::plugin, "attention: has the state 'kv' with dims [2, 3]; its inputs need [2, 2]");
}

TEST(BlockDeclaration, RefusesAFamilyWithoutBlocksOrBuilds) {
  EXPECT_THROW(open_family_with(nullptr), sdk::Error);
}

}  // namespace
}  // namespace lamina::decoder
