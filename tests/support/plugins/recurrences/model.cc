// A family for tests: one small block with a recurrence that a key selects. "linear" and
// "linear_by_token" are one model in two spellings, as are "matrix" and "matrix_by_token".
//
// Shapes: B batch, T tokens, D model width, N heads, H head width.

#include <cmath>

#include "lamina/sdk.h"

namespace recurrences {
namespace {

using namespace lamina::sdk;

struct Config {
  std::int64_t vocab_size, hidden_size, num_hidden_layers;
  std::string_view recurrence;
};

constexpr std::int64_t kHeads = 2;

Tensor gate(Scope s, Tensor x_BTD, std::int64_t width) {
  return sigmoid(widen(linear(s, x_BTD, width)));
}

// h = a h + (1 - a) b.
Tensor linear_recurrence(Scope s, const Config& c, Tensor x_BTD, const Step& step, bool by_token) {
  Tensor a_BTD = gate(s / "decay", x_BTD, c.hidden_size);
  Tensor b_BTD = (1 - a_BTD) * widen(linear(s / "in", x_BTD, c.hidden_size));
  if (!by_token) return step.in(s).linear_scan(a_BTD, b_BTD);
  return step.in(s).scan_tokens({.carries = {{"h", {c.hidden_size}}}, .inputs = {a_BTD, b_BTD}},
                                [](const Tensors& carries, const Tensors& tokens) -> TokenResults {
                                  Tensor h_BD = tokens[0] * carries[0] + tokens[1];
                                  return {.carries = {h_BD}, .results = {h_BD}};
                                })[0];
}

// S = diag(exp(g)) S + a outer (b^T S) + k outer v, read before the token: as RWKV-7, with a bonus.
Tensor matrix_recurrence(Scope s, const Config& c, Tensor x_BTD, const Step& step, bool by_token) {
  const std::int64_t n = kHeads, d = c.hidden_size, h = d / n;
  const std::int64_t batch = x_BTD.dim(0);
  auto heads = [&](const char* name) { return split_heads(widen(linear(s / name, x_BTD, d)), n); };
  Tensor q_BTNH = heads("q"), k_BTNH = heads("k"), v_BTNH = heads("v");
  Tensor b_BTNH = rms_norm(heads("b"), Tensor{}) / std::sqrt(static_cast<double>(h));
  Tensor a_BTNH = -(b_BTNH * sigmoid(heads("a")));
  Tensor g_BTNH = -softplus(heads("g"));
  if (!by_token)
    return merge_heads(step.in(s).matrix_scan(
        q_BTNH, k_BTNH, v_BTNH, g_BTNH,
        {.a = a_BTNH, .b = b_BTNH, .scale = 0.5, .decay_first = false, .read_before = true}));
  const auto body = [&](const Tensors& carries, const Tensors& tokens) -> TokenResults {
    Tensor before_BNHV = carries[0];
    auto column = [&](Tensor x) { return reshape(x, {batch, n, h, 1}); };
    auto row = [&](Tensor x) { return reshape(x, {batch, n, 1, h}); };
    auto read = [&](Tensor key) { return reduce_sum(before_BNHV * column(key), {.dims = {2}}); };
    Tensor after_BNHV = before_BNHV * column(exp(tokens[3]));
    after_BNHV += column(tokens[4]) * row(read(tokens[5]));
    after_BNHV += column(tokens[1]) * row(tokens[2]);
    return {.carries = {after_BNHV}, .results = {read(tokens[0]) * 0.5}};
  };
  return merge_heads(step.in(s).scan_tokens(
      {.carries = {{"S", {n, h, h}}}, .inputs = {q_BTNH, k_BTNH, v_BTNH, g_BTNH, a_BTNH, b_BTNH}},
      body)[0]);
}

// An LSTM: no scan op computes it, and the body owns its parameters.
Tensor lstm(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const std::int64_t d = c.hidden_size;
  const auto body = [&](const Tensors& carries, const Tensors& tokens) -> TokenResults {
    Tensor x_BD = tokens[0], h_BD = cast_like(carries[0], x_BD);
    Tensor z_BD = widen(linear(s / "cell", concat({x_BD, h_BD}, 1), 4 * d));
    auto part = [&](std::int64_t i) { return slice(z_BD, {.dim = 1, .start = i * d, .size = d}); };
    Tensor cell_BD = sigmoid(part(0)) * carries[1] + sigmoid(part(1)) * tanh(part(2));
    Tensor out_BD = sigmoid(part(3)) * tanh(cell_BD);
    return {.carries = {out_BD, cell_BD}, .results = {cast_like(out_BD, x_BD)}};
  };
  return step.in(s).scan_tokens({.carries = {{"h", {d}}, {"c", {d}}}, .inputs = {x_BTD}}, body)[0];
}

// A state space with groups of norms and limits of time steps, and experts without a gate.
Tensor state_space(Scope s, Tensor h_BTD, const Step& step) {
  Tensor y_BTD = state_space_mixer(s / "mixer", h_BTD, step,
                                   {.heads = 4,
                                    .head_dim = 6,
                                    .state = 5,
                                    .groups = 2,
                                    .taps = 3,
                                    .bias = true,
                                    .norm = {.eps = 1e-5, .groups = 2},
                                    .least_time_step = 0.001,
                                    .most_time_step = 0.1});
  return y_BTD +
         mixture(s / "moe", h_BTD + y_BTD, step,
                 {.router = {.experts = 4, .per_token = 2},
                  .experts = {
                      .width = 12, .glu = {.activation = "relu2"}, .gated = false, .bias = true}});
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "norm", x_BTD, 1e-6);
  h_BTD += step.previous(h_BTD) * 0.5;
  h_BTD += step.in(s / "far").previous(h_BTD, 3) * 0.25;
  const std::string_view name = c.recurrence;
  if (name == "state_space") return x_BTD + state_space(s, h_BTD, step);
  Tensor y_BTD = name == "lstm" ? lstm(s / "lstm", c, h_BTD, step)
                 : name.starts_with("matrix")
                     ? matrix_recurrence(s / "matrix", c, h_BTD, step, name == "matrix_by_token")
                     : linear_recurrence(s / "linear", c, h_BTD, step, name == "linear_by_token");
  return x_BTD + block_linear(s / "out", cast_like(y_BTD, x_BTD), c.hidden_size,
                              {.blocks = 2, .bias = true, .axis = axis::embed});
}

void keys(Schema<Config>& key) {
  key("vocab_size", &Config::vocab_size, {.required = true, .min = 1, .doc = "V"});
  key("hidden_size", &Config::hidden_size, {.required = true, .min = 1, .doc = "D"});
  key("num_hidden_layers", &Config::num_hidden_layers,
      {.required = true, .min = 0, .doc = "layers"});
  key("recurrence", &Config::recurrence,
      {.required = true,
       .choices = {"linear", "linear_by_token", "matrix", "matrix_by_token", "lstm", "state_space"},
       .doc = "of the block"});
}

constexpr Model<Config> kModel = {
    .family = {.name = "recurrences", .doc = "recurrences, for tests"},
    .keys = keys,
    .validate =
        [](const Config& c, const Problems& problem) {
          if (c.hidden_size % 4 != 0)
            problem("hidden_size", "got ", c.hidden_size, "; it must be a multiple of 4");
        },
    .init_std = [](const Config&) { return 0.3; },
    .blocks =
        [] {
          return std::vector<Block<Config>>{{1, "recurrent", block}};
        },
    .plan = [](const Config& c) { return prefix("layers", unit(1), c.num_hidden_layers); },
    .head = [](const Config&) { return Head{.norm = RmsNormOptions{.eps = 1e-6}}; },
    .mtp_inputs = MtpInputs::none,
};

}  // namespace
}  // namespace recurrences

LAMINA_PLUGIN("org.lamina.recurrences", "0.1.0", recurrences::kModel)
