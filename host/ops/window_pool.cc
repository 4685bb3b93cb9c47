// window_pool(values, gates, bias, ends, starts): pools each window of tokens into one row,
// weighted by a softmax over its tokens in every channel. DeepSeek-AI 2026 (DeepSeek V4),
// compressed attention.
//
// Row w of sequence b pools the tokens e - ratio + 1 to e, e = ends[b, w]; token i of a window has
// the gate gates[b, e - ratio + 1 + i] + bias[i]. With overlap, values and gates have 2 D channels:
// the first D are for the window after the token's own, the other D for its own, and row w pools 2
// ratio tokens, the earlier half only if starts[b, w] > 0. Rows with ends -1 are 0.
#include "ops/window_pool.h"
#include "ops/decode.h"

namespace lamina::ops {

Type pooled_type(const Call& c) {
  const Type& values = c.type(0);
  c.require_ndim(0, 3);
  c.require_floating(0);
  c.require(c.type(1) == values, "gates {} do not match values {}", to_string(c.type(1)),
            to_string(values));
  std::int64_t ratio = c.i("ratio"), halves = c.i("overlap") ? 2 : 1;
  c.require(ratio > 0, "ratio must be at least 1, got {}", ratio);
  c.require(values.dim(2) % halves == 0, "values has {} channels; overlap requires an even number",
            values.dim(2));
  c.require_shape(2, {ratio, values.dim(2)});
  c.require_floating(2);
  c.require_ndim(3, 2);
  for (int i : {3, 4}) {
    c.require_dtype(i, DType::i32);
    c.require_shape(i, c.type(3).shape);
  }
  c.require(c.type(3).dim(0) == values.dim(0), "ends has {} rows, but values has {}",
            c.type(3).dim(0), values.dim(0));
  return {values.dtype, {values.dim(0), c.type(3).dim(1), values.dim(2) / halves}, {}};
}

namespace {

namespace in = operand::window_pool;

std::vector<Type> infer(const Call& c) { return {pooled_type(c)}; }

std::vector<Tensor> vjp(const VjpCall& c) {
  const auto d = window_pool_grad({.values = c.in(in::kValues),
                                   .gates = c.in(in::kGates),
                                   .bias = c.in(in::kBias),
                                   .ends = c.in(in::kEnds),
                                   .starts = c.in(in::kStarts),
                                   .dy = c.ct()},
                                  {.ratio = c.i("ratio"), .overlap = c.i("overlap") != 0});
  return {d.dvalues, d.dgates, cast(d.dbias, c.type(in::kBias).dtype), {}, {}};
}

// Windows that end in this call extend into earlier ones: the latest rows are kept and prepended to
// the call's rows.
std::vector<Tensor> decode(DecodeCall& c) {
  const Tensor values = c.in(in::kValues), gates = c.in(in::kGates);
  const std::int64_t width = values.dim(2), kept = c.state->dims[1];
  const Tensor x = concat({values, gates}, {.dim = 2});
  const std::int64_t dims[] = {x.dim(0), kept, x.dim(2)};
  const Tensor window = c.fixed_state(c.state_dtype(x.dtype()), dims);
  const Tensor rows = cast(x, window.dtype());
  const Tensor start = c.context.host_input(HostInput::start);
  const Tensor count = c.context.host_input(HostInput::count);
  const auto results = extend_window(window, rows, start, count);
  c.context.state_output(window, results.window_out);
  const Tensor extended = cast(results.extended, x.dtype());
  c.in(in::kValues) = slice(extended, 2, 0, width);
  c.in(in::kGates) = slice(extended, 2, width, width);
  const Tensor ends = c.in(in::kEnds);
  c.in(in::kEnds) =
      select(equal(ends, number_like(ends, -1)), ends, shift(ends, static_cast<double>(kept)));
  return c.add_node();
}

// Channels of values and gates, number of kept tokens.
std::vector<std::int64_t> state_dims(const DecodeCall& c) {
  const std::int64_t windows = c.i("overlap") != 0 ? 2 : 1;
  return {2 * c.in(in::kValues).dim(2), windows * c.i("ratio") - 1};
}

bool has_memory(const DecodeCall& c) { return c.i("ratio") > 1 || c.i("overlap") != 0; }

constexpr OperandDims kNumDims[] = {{in::kValues, 3}, {in::kGates, 3}, {in::kEnds, 2}};
constexpr DecodeForm kDecode{.state = StateKind::conv_window,
                             .step = decode,
                             .state_dims = state_dims,
                             .num_dims = kNumDims,
                             .remembers = has_memory};

// Values times their weights, in every window of a token.
double flops(const NodeView& n, const WorkContext&) {
  return 2 * num_elements(n.type(in::kValues)) * (n.i("overlap") != 0 ? 2 : 1);
}

}  // namespace

constinit const OpDef window_pool_op = {.infer = infer,
                                        .vjp = vjp,
                                        .decode = &kDecode,
                                        .cost = {.flops = flops},
                                        .split = {.rule = "bTD, bTD, RD, bW, bW -> bWD"}};

}  // namespace lamina::ops
