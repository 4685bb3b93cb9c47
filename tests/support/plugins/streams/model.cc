// A family for tests: a layer is one hyper-connection around a small branch, tanh(norm(x) w). The
// inputs and outputs of the branch are kept as metrics.
//
// Shapes: B batch, T tokens, D model width, K residual streams.

#include "lamina/sdk.h"

namespace streams_case {
namespace {

using namespace lamina::sdk;

struct Config {
  std::int64_t vocab_size, hidden_size, num_hidden_layers;
  std::int64_t streams, iterations;
  double norm_eps;
  bool permutations;
};

Tensor connection(Scope s, const Config& c, Tensor x_BTKD, const Step& step) {
  step.metric("reduced", sum_streams(x_BTKD));
  return hyper_connection(s / "mhc", x_BTKD,
                          {.streams = c.streams,
                           .iterations = c.iterations,
                           .norm_eps = c.norm_eps,
                           .permutations = c.permutations},
                          [&](Tensor x_BTD) {
                            Tensor h_BTD = rms_norm(s / "norm", x_BTD, c.norm_eps);
                            step.metric("branch_in", h_BTD);
                            Tensor y_BTD = tanh(linear(s / "branch", h_BTD, c.hidden_size));
                            step.metric("branch_out", y_BTD);
                            return y_BTD;
                          });
}

Tensors expand(Scope, const Config& c, const Tensors& x, const Step&) {
  return {expand_streams(x[0], c.streams)};
}

// The only norm without a gain is DeepSeek V4's.
Tensors weigh(Scope s, const Config& c, const Tensors& x, const Step&) {
  return {weigh_streams(s / "head", x[0],
                        {.streams = c.streams, .norm_eps = c.norm_eps, .norm_weight = false})};
}

void keys(Schema<Config>& key) {
  auto size = [&](const char* name, std::int64_t Config::*field, std::int64_t fallback,
                  std::int64_t min = 1) {
    key(name, field, {.fallback = fallback, .min = min, .doc = "a size"});
  };
  size("vocab_size", &Config::vocab_size, 7);
  size("hidden_size", &Config::hidden_size, 8);
  size("num_hidden_layers", &Config::num_hidden_layers, 1, 0);
  size("streams", &Config::streams, 2);
  key("iterations", &Config::iterations,
      {.fallback = 20, .min = 1, .max = 1000, .doc = "of Sinkhorn"});
  key("norm_eps", &Config::norm_eps,
      {.fallback = 1e-6, .max = 1, .above = 0, .doc = "of all norms"});
  key("permutations", &Config::permutations, {.fallback = false, .doc = "not balanced"});
}

constexpr Model<Config> kModel = {
    .family = {.name = "streams_case", .doc = "one hyper-connection alone, for tests"},
    .keys = keys,
    .blocks =
        [] {
          return std::vector<Block<Config>>{{.id = 1, .name = "streams", .build = connection},
                                            {.id = 2, .name = "expand", .build_all = expand},
                                            {.id = 3, .name = "weigh", .build_all = weigh}};
        },
    .plan = [](const Config& c) { return Plan(repeat(unit(1)).over(c.num_hidden_layers)); },
    .embed = [](const Config&) { return Embed{.entry = 2}; },
    .head = [](const Config&) { return Head{.exit = 3}; },
    .mtp_inputs = MtpInputs::none,
};

}  // namespace
}  // namespace streams_case

LAMINA_PLUGIN("org.lamina.streams_case", "0.1.0", streams_case::kModel)
