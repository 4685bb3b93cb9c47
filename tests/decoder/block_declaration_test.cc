// The declarations of a block must be the same in every trace, because the first trace defines
// them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "decoder/one_block_family.h"
#include "support/expect_error.h"

namespace lamina::decoder {
namespace {

sdk::Tensor vector(sdk::Scope s, const char* name, std::int64_t size) {
  return s.param(name, {size}, {.axes = {sdk::axis::norm}, .role = sdk::Role::norm});
}

TEST(BlockDeclaration, AcceptsTheSameInEveryTrace) {
  EXPECT_NO_THROW(open_family_with(LAMINA_BLOCK({ return x * vector(s, "w", x.dim(2)); })));
}

TEST(BlockDeclaration, RefusesAParameterWhoseShapeDependsOnTheLength) {
  EXPECT_ERROR_SAYS(
      open_family_with(LAMINA_BLOCK({
        vector(s, "per_token", x.dim(1));
        return x;
      })),
      ExitCode::plugin,
      "block 'varies' of family 'varying': parameter 'per_token' is [1] in one trace and [3] in");
}

TEST(BlockDeclaration, RefusesAParameterThatIsThereForSomeLengthsOnly) {
  EXPECT_ERROR_SAYS(open_family_with(LAMINA_BLOCK({
                      if (x.dim(1) > 1) vector(s, "late", 4);
                      return x;
                    })),
                    ExitCode::plugin,
                    "parameter 'late' is declared in one trace and not in another");
  EXPECT_ERROR_SAYS(open_family_with(LAMINA_BLOCK({
                      if (x.dim(1) == 1) vector(s, "early", 4);
                      return x;
                    })),
                    ExitCode::plugin,
                    "parameter 'early' is declared in one trace and not in another");
}

TEST(BlockDeclaration, RefusesAStateThatDependsOnTheBatch) {
  EXPECT_ERROR_SAYS(open_family_with(LAMINA_BLOCK({
                      s.state(LAMINA_STATE_CONV_WINDOW, "memory", {x.dim(0), 3},
                              {.axes = {sdk::axis::conv, sdk::axis::none}});
                      return x;
                    })),
                    ExitCode::plugin,
                    "state 'memory' is [1, 3] in one trace and [2, 3] in another");
}

TEST(BlockDeclaration, RefusesAGraphThatDependsOnACounter) {
  EXPECT_ERROR_SAYS(open_family_with(LAMINA_BLOCK({
                      static double calls = 0;
                      return sdk::scale(x, ++calls);
                    })),
                    ExitCode::plugin,
                    "two builds for one config, batch and length gave different graphs");
}

TEST(BlockDeclaration, RefusesAStateWithOtherDimsThanTheOp) {
  EXPECT_ERROR_SAYS(open_family_with(LAMINA_BLOCK({
                      const sdk::Tensor kv = sdk::reshape(x, {x.dim(0), x.dim(1), 2, 2});
                      const sdk::State wrong =
                          s.state(LAMINA_STATE_KV, "kv", {2, 3},
                                  {.axes = {LAMINA_AXIS_CACHE_HEADS, LAMINA_AXIS_CACHE_DIM}});
                      const std::vector<sdk::Tensor> q_k_v{kv, kv, kv};
                      const auto out = sdk::emit_all<sdk::Op::attention, 1>(q_k_v, {}, wrong,
                                                                            sdk::At::current());
                      return sdk::reshape(out[0], {x.dim(0), x.dim(1), 4});
                    })),
                    ExitCode::plugin,
                    "attention: has the state 'kv' with dims [2, 3]; its inputs require [2, "
                    "2]");
}

// Attention over x with the window and chunk of `op`, and a state declared with different ones.
sdk::Tensor windowed(sdk::Scope s, sdk::Tensor x, const sdk::AttentionOptions& op,
                     const sdk::StateOptions& state) {
  const sdk::Tensor kv = sdk::reshape(x, {x.dim(0), x.dim(1), 2, 2});
  return sdk::reshape(sdk::attention(kv, kv, kv, s.state(LAMINA_STATE_KV, "kv", {2, 2}, state), op),
                      {x.dim(0), x.dim(1), 4});
}

const std::vector<std::string_view> kKvAxes{LAMINA_AXIS_CACHE_HEADS, LAMINA_AXIS_CACHE_DIM};

TEST(BlockDeclaration, RefusesAStateWithASmallerWindowThanTheOps) {
  EXPECT_ERROR_SAYS(
      open_family_with(
          LAMINA_BLOCK({ return windowed(s, x, {.window = 8}, {.axes = kKvAxes, .window = 4}); })),
      ExitCode::plugin,
      "attention: reads the last 8 tokens of the state 'kv', which is declared with window 4");
  EXPECT_ERROR_SAYS(
      open_family_with(
          LAMINA_BLOCK({ return windowed(s, x, {}, {.axes = kKvAxes, .window = 4}); })),
      ExitCode::plugin,
      "attention: reads all tokens of the state 'kv', which is declared with window 4");
  open_family_with(
      LAMINA_BLOCK({ return windowed(s, x, {.window = 8}, {.axes = kKvAxes, .window = 8}); }));
}

TEST(BlockDeclaration, RefusesAStateWithAnotherChunkOrStrideThanTheOps) {
  EXPECT_ERROR_SAYS(
      open_family_with(
          LAMINA_BLOCK({ return windowed(s, x, {.chunk = 8}, {.axes = kKvAxes, .chunk = 16}); })),
      ExitCode::plugin,
      "attention: has chunk 8, but the state 'kv' is declared with chunk 16; they must be "
      "equal");
  EXPECT_ERROR_SAYS(
      open_family_with(
          LAMINA_BLOCK({ return windowed(s, x, {}, {.axes = kKvAxes, .stride = 2}); })),
      ExitCode::plugin,
      "attention: has 1 tokens per slot, but the state 'kv' is declared with stride 2");
}

TEST(BlockDeclaration, RefusesAWindowOfAStateThatHasNoSlots) {
  EXPECT_ERROR_SAYS(
      open_family_with(LAMINA_BLOCK({
        s.state(
            LAMINA_STATE_RECURRENT, "matrix", {2, 2, 2},
            {.axes = {LAMINA_AXIS_RECURRENT_HEADS, sdk::axis::none, sdk::axis::none}, .window = 4});
        return x;
      })),
      ExitCode::plugin,
      "state 'matrix' has window 4, chunk 0 and stride 1, but a state of kind recurrent has");
}

sdk::RopeOptions rotation;  // of the next block

// The attributes of the table of angles are checked with the block, not when a program is compiled.
TEST(BlockDeclaration, RefusesRotaryPositionsWithoutFrequencies) {
  const std::pair<sdk::RopeOptions, const char*> kWrong[] = {
      {{.theta = 0}, "rope: theta must be a positive number, got 0"},
      {{.factor = -1}, "rope: factor must be a positive number, got -1"},
      {{.scaling = "ntk"},
       "rope: scaling must be one of none, linear, llama3, yarn, dynamic, longrope, got 'ntk'"},
      {{.scaling = "yarn"}, "rope: scaling yarn requires original_max_positions"},
      {{.scaling = "yarn", .original_max_positions = 8, .beta_fast = 0},
       "rope: beta_fast must be a positive number, got 0"},
      {{.scaling = "llama3", .low_freq_factor = 0, .original_max_positions = 8},
       "rope: low_freq_factor must be a positive number, got 0"},
      {{.scaling = "dynamic"}, "rope: scaling dynamic requires max_positions"},
      {{.short_factor = {1, 2}}, "rope: short_factor is for scaling longrope, got 2 numbers"},
      {{.mrope_section = {1, 2, 3}},
       "rope: mrope_section must be three numbers with the sum 2, half of rotary_dim, got "
       "[1, 2, 3]"},
  };
  for (const auto& [options, says] : kWrong) {
    SCOPED_TRACE(says);
    rotation = options;
    EXPECT_ERROR_SAYS(
        open_family_with(LAMINA_BLOCK({
          return sdk::merge_heads(sdk::rope(sdk::split_heads(x, 1), step.positions_BT, rotation));
        })),
        ExitCode::plugin, says);
  }
}

TEST(FinalNorm, IsRefusedWithTheFamilyWhereItsOpRefusesIt) {
  const auto identity = [](sdk::Scope, const OneBlockConfig&, sdk::Tensor x, const sdk::Step&) {
    return x;
  };
  final_norm = sdk::RmsNormOptions{.eps = -1};
  EXPECT_ERROR_SAYS(open_family_with(identity), ExitCode::plugin,
                    "head of family 'varying': its final norm is refused: rms_norm: eps must be "
                    "greater than 0, got -1");
  final_norm.op = sdk::row_of(sdk::Op::linear).id;
  EXPECT_ERROR_SAYS(open_family_with(identity), ExitCode::plugin,
                    "op 'linear' cannot be the final norm; expected a norm that takes (x, w?) or "
                    "(x, w?, bias?)");
  // One takes two other inputs, one takes x alone.
  for (const sdk::Op op : {sdk::Op::less, sdk::Op::exp}) {
    final_norm = {};
    final_norm.op = sdk::row_of(op).id;
    final_norm.revision = sdk::row_of(op).revision;
    final_norm.flags = LAMINA_NORM_NO_WEIGHT;
    EXPECT_ERROR_SAYS(open_family_with(identity), ExitCode::plugin,
                      fmt::format("family 'varying': options: op '{}' cannot be the final norm; "
                                  "expected a norm that takes (x, w?) or (x, w?, bias?)",
                                  sdk::row_of(op).name));
  }
  final_norm = {};
}

// Defaults have the same numbers by coincidence: vocab_size is 5, too.
TEST(BlockDeclaration, RefusalListsTheGivenKeysWithItsNumbers) {
  const auto refusal = [](const std::string& model) -> std::string {
    try {
      open_family_with(LAMINA_BLOCK({ return x * vector(s, "w", 5); }), nullptr,
                       config::parse_toml(model, "test", config::Origin::Kind::model_file));
    } catch (const PluginError& refused) {
      return refused.what();
    }
    return "no error";
  };
  EXPECT_THAT(refusal(""), ::testing::HasSubstr("[5] do not broadcast"));
  EXPECT_THAT(refusal(""), ::testing::Not(::testing::HasSubstr("keys with these numbers")));
  EXPECT_THAT(refusal("[model]\nhidden_size = 4\n"),
              ::testing::HasSubstr("\n  keys with these numbers: hidden_size = 4 (test:2)"));
}

TEST(BlockDeclaration, RefusesAFamilyWithoutBlocksOrBuilds) {
  EXPECT_THROW(open_family_with(nullptr), sdk::Error);
}

}  // namespace
}  // namespace lamina::decoder
