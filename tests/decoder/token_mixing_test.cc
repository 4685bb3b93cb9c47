// A block may see other tokens only through the ops that keep decode state. Other ways of mixing
// tokens would make decoding differ from training.
#include <gtest/gtest.h>

#include "decoder/one_block_family.h"
#include "support/expect_error.h"

namespace lamina::decoder {
namespace {

using sdk::Tensor;

#define EXPECT_MIXES(words, ...) \
  EXPECT_ERROR_SAYS(open_family_with(LAMINA_BLOCK(__VA_ARGS__)), ExitCode::plugin, words)

Tensor slice(Tensor x, std::int64_t dim, std::int64_t start, std::int64_t size) {
  return sdk::slice(x, {.dim = dim, .start = start, .size = size});
}

// x with the tokens of each row moved by one: a token shift without decode state.
Tensor shifted(Tensor x) {
  return sdk::concat({slice(x, 1, 0, 1), slice(x, 1, 0, x.dim(1) - 1)}, 1);
}

TEST(TokenMixing, IsRefusedWithTheLineAndTheRightOp) {
  const auto shift =
      LAMINA_BLOCK({ return x + sdk::pad(slice(x, 1, 0, x.dim(1) - 1), {.dim = 1, .before = 1}); });
  EXPECT_ERROR_SAYS(open_family_with(shift), ExitCode::plugin,
                    "block 'varies' of family 'varying': slice combines tokens, along dim 1 of x "
                    "f32[2, 3, 4]; decoding, where a call has a part of the tokens");
  EXPECT_ERROR_SAYS(open_family_with(shift), ExitCode::plugin, "token_mixing_test.cc:");
  EXPECT_ERROR_SAYS(open_family_with(shift), ExitCode::plugin,
                    "through step.attend, step.latent_attention, step.gated_delta_rule, "
                    "step.matrix_scan, step.linear_scan, step.causal_conv1d, step.previous (a "
                    "token shift), step.scan_tokens (any recurrence)");
}

TEST(TokenMixing, ByEveryOpIsRefused) {
  EXPECT_MIXES("concat combines tokens, along dim 1 of xs 0", {
    return slice(sdk::concat({x, x}, 1), 1, 0, x.dim(1));
  });
  EXPECT_MIXES("reduce_sum combines tokens, along dim 1 of x",
               { return x + sdk::reduce_sum(x, {.dims = {1}, .keep = true}); });
  EXPECT_MIXES("reduce_max combines tokens, along dim 0 of x", {  // of other rows
    return x + sdk::reduce_max(x, {.dims = {0}, .keep = true});
  });
  EXPECT_MIXES("softmax combines tokens, along dim 2 of x f32[2, 3, 3]",
               { return sdk::matmul(sdk::softmax(sdk::matmul(x, x, {.transpose_b = true})), x); });
  EXPECT_MIXES("matmul combines tokens, along dim 2 of a f32[2, 3, 3]",
               { return sdk::matmul(sdk::matmul(x, x, {.transpose_b = true}), x); });
  EXPECT_MIXES("top_k combines tokens", {
    return x + sdk::transpose(sdk::top_k(sdk::transpose(x, {0, 2, 1}), {.k = 1})[0], {0, 2, 1});
  });
  EXPECT_MIXES("rms_norm combines tokens, along dim 2 of x f32[2, 4, 3]", {
    return sdk::transpose(sdk::rms_norm(sdk::transpose(x, {0, 2, 1}), Tensor{}), {0, 2, 1});
  });
  EXPECT_MIXES("reshape puts tokens of f32[2, 3, 4] into several dims of f32[3, 2, 4]", {
    return sdk::reshape(sdk::reshape(x, {x.dim(1), x.dim(0), 4}), x.shape());
  });
}

TEST(TokenMixing, ByThePlaceInTheCallIsRefused) {
  EXPECT_MIXES(
      "add distinguishes tokens by their position in the call, along dim 0 of b f32[3, "
      "4]",
      {
        Tensor table = s.param("table", {16, 4}, {.axes = {sdk::axis::none, sdk::axis::embed}});
        return x + slice(table, 0, 0, x.dim(1));
      });
}

TEST(TokenMixing, ByTheirNumberIsRefused) {
  EXPECT_MIXES("dim_size counts tokens, along dim 1 of x f32[2, 3, 4]",
               { return x / sdk::cast_like(sdk::dim_size(x, 1), x); });
  EXPECT_MIXES("dim_size counts tokens, along dim 0 of x f32[6, 4]", {
    Tensor rows = sdk::reshape(x, {x.dim(0) * x.dim(1), 4});
    return x / sdk::cast_like(sdk::dim_size(rows, 0), x);
  });
  EXPECT_NO_THROW(
      open_family_with(LAMINA_BLOCK({ return x / sdk::cast_like(sdk::dim_size(x, 2), x); })));
}

// The places of tokens among the tokens of their expert (of 4), and the first place of each expert.
std::array<Tensor, 2> grouped(Tensor x) {
  return sdk::group_rows(sdk::top_k(x, {.k = 1})[1], {.groups = 4});
}

// The number of tokens per expert depends on all tokens.
TEST(TokenMixing, ByTheLoadOfExpertsIsRefused) {
  EXPECT_MIXES("cast_like computes with positions of tokens among others, x i32[5]",
               { return x + slice(sdk::cast_like(grouped(x)[1], x), 0, 1, 4); });
  EXPECT_MIXES("cast_like computes with positions of tokens among others, x i32[6]", {
    return x * sdk::reshape(sdk::cast_like(grouped(x)[0], x), {x.dim(0), x.dim(1), 1});
  });
  // Moves other rows than the op computed.
  EXPECT_MIXES("sub computes with positions of tokens among others, a i32[6]", {
    const auto [order, offsets] = grouped(x);
    Tensor ones = sdk::constant(s, {.shape = {x.dim(0), x.dim(1), 1}, .value = 1});
    return sdk::combine_rows(sdk::gather_rows(x, order, 1), order - order, ones);
  });
  // Sums of rows of ones distinguish rows by their experts.
  EXPECT_MIXES("reduce_sum combines tokens, along dim 0 of x f32[6, 4]", {
    const auto [order, offsets] = grouped(x);
    Tensor w =
        s.param("w", {4, 4, 4}, {.axes = {sdk::axis::experts, sdk::axis::mlp, sdk::axis::embed}});
    Tensor ones = sdk::constant(s, {.shape = {x.dim(0) * x.dim(1), 4}, .value = 1});
    return x + sdk::reduce_sum(sdk::grouped_linear(ones, w, offsets, {}), {.dims = {0}});
  });
}

TEST(TokenMixing, IsFoundBehindOtherOps) {
  EXPECT_MIXES("slice combines tokens, along dim 0 of x f32[6, 4]", {
    Tensor rows = sdk::reshape(sdk::gelu(x), {x.dim(0) * x.dim(1), 4});
    Tensor first = slice(rows, 0, 0, 1);
    return x * sdk::reshape(first, {1, 1, 4});
  });
  EXPECT_MIXES("slice combines tokens, along dim 1 of x f32[2, 3, 4]", {
    Tensor q = sdk::reshape(shifted(x), {x.dim(0), x.dim(1), 2, 2});
    return sdk::reshape(step.attend(q, q, q), {x.dim(0), x.dim(1), 4});
  });
}

// A plugin that builds another graph for long calls is refused at the first long call.
TEST(TokenMixing, InLongCallsIsRefusedInEveryPhase) {
  const Model model = open_family_with(LAMINA_BLOCK({ return x.dim(1) > 31 ? shifted(x) : x; }));
  model.forward_graph({1, 31});
  EXPECT_ERROR_SAYS(model.forward_graph({1, 32}), ExitCode::plugin,
                    "slice combines tokens, along dim 1 of x f32[1, 32, 4]");
  EXPECT_ERROR_SAYS(model.loss_graph({3, 40}, {.training = true}), ExitCode::plugin,
                    "slice combines tokens, along dim 1 of x f32[3, 40, 4]");
  model.decode_graph({1, 31}, {.capacity = 64, .max_call_tokens = 64});
  EXPECT_ERROR_SAYS(model.decode_graph({1, 64}, {.capacity = 64, .max_call_tokens = 64}),
                    ExitCode::plugin, "slice combines tokens, along dim 1 of x f32[1, 64, 4]");
}

TEST(TokenMixing, AcceptsStatefulOpsAndLosses) {
  EXPECT_NO_THROW(open_family_with(LAMINA_BLOCK({
    Tensor taps = s.param("taps", {4, 2}, {.axes = {sdk::axis::conv, sdk::axis::none}});
    Tensor before = step.causal_conv1d(x, taps, {});
    Tensor q = sdk::reshape(x + before, {x.dim(0), x.dim(1), 2, 2});
    step.loss("load", sdk::reduce_sum(sdk::softmax(shifted(x)), {.dims = {0, 1, 2}}));
    return sdk::reshape(step.attend(q, q, q), {x.dim(0), x.dim(1), 4});
  })));
}

TEST(TokenMixing, KeepsEqualRowsApartFromChannelsThatAreReshaped) {
  EXPECT_NO_THROW(open_family_with(LAMINA_BLOCK({
    Tensor w =
        s.param("w", {1, 1, 4}, {.axes = {sdk::axis::none, sdk::axis::none, sdk::axis::embed}});
    Tensor heads = sdk::reshape(sdk::broadcast(w, x.shape()), {x.dim(0), x.dim(1), 2, 2});
    return x + sdk::reshape(heads, x.shape());
  })));
  // Heads that are equal meet heads that are not, after both became rows.
  EXPECT_NO_THROW(open_family_with(LAMINA_BLOCK({
    Tensor heads = sdk::reshape(x, {x.dim(0), x.dim(1), 2, 2});
    Tensor repeated = sdk::broadcast(sdk::reduce_sum(heads, {.dims = {2}, .keep = true}),
                                     {x.dim(0), x.dim(1), 2, 2});
    const std::vector<std::int64_t> rows = {x.dim(0) * x.dim(1) * 2, 2};
    return sdk::reshape(sdk::reshape(heads, rows) + sdk::reshape(repeated, rows), x.shape());
  })));
  // Rows of channels that become columns are different for each token.
  EXPECT_MIXES("add distinguishes tokens by their position in the call, along dim", {
    Tensor w =
        s.param("w", {1, 1, 4}, {.axes = {sdk::axis::none, sdk::axis::none, sdk::axis::embed}});
    Tensor columns = sdk::reshape(sdk::broadcast(w, x.shape()), {x.dim(0), 4, x.dim(1)});
    return x + sdk::transpose(columns, {0, 2, 1});
  });
}

TEST(TokenMixing, AcceptsTokensMovedTemporarily) {
  EXPECT_NO_THROW(open_family_with(LAMINA_BLOCK({
    Tensor w = s.param("w", {4, 4}, {.axes = {sdk::axis::embed, sdk::axis::embed}});
    Tensor rows = sdk::reshape(sdk::transpose(x, {1, 0, 2}), {x.dim(0) * x.dim(1), 2, 2});
    rows = sdk::linear(sdk::reshape(rows, {x.dim(0) * x.dim(1), 4}), w);
    rows = sdk::reshape(rows, {x.dim(1), x.dim(0), 4});
    Tensor ones =
        sdk::broadcast(sdk::reshape(s.param("one", {1}, {.axes = {sdk::axis::none}}), {1, 1, 1}),
                       {x.dim(0), x.dim(1), 1});
    return sdk::transpose(rows, {1, 0, 2}) * ones;
  })));
}

}  // namespace
}  // namespace lamina::decoder
