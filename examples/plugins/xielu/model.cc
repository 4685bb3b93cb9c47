// A Llama block with the activation xIELU in its feed-forward: a custom op, with kernels.
// Huang and Schlag 2024, "Deriving Activation Functions Using Integration", equation 15.
//
// Shapes: B batch, T tokens, D model width, F feed-forward width.

#include <cmath>
#include <vector>

#include "kernels.h"
#include "lamina/sdk.h"

namespace xielu {
namespace {

using namespace lamina::sdk;

// ap x^2 + beta x above 0, an (e^x - 1 - x) + beta x below, with ap = softplus(p) and an = beta +
// softplus(n): computed in f32.
Tensors lower(const OpUse& use) {
  Tensor x = widen(use.in(0)), zero = x - x;
  const double beta = use.attrs.number("beta");
  Tensor ap = softplus(widen(use.in(1))), an = softplus(widen(use.in(2))) + beta;
  Tensor least = minimum(x, zero);
  Tensor y = select(less(zero, x), ap * square(x), an * (expm1(least) - least)) + x * beta;
  return {cast_like(y, use.in(0))};
}

float scalar(const Buffer& of) {
  float out;
  of.load(0, &out);
  return out;
}
float softplus(float x) { return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0f); }
float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

void forward(const KernelCall& call) {
  const Buffer x = call.in(0), y = call.out(0);
  const float beta = static_cast<float>(call.attrs.number("beta"));
  const float ap = softplus(scalar(call.in(1))), an = softplus(scalar(call.in(2))) + beta;
  call.parallel_for(x.num_rows(), [&](std::int64_t row) {
    std::vector<float> v(static_cast<std::size_t>(x.width()));
    x.load(row, v.data());
    for (float& e : v) e = (e > 0 ? ap * e * e : an * (std::expm1(e) - e)) + beta * e;
    y.store(row, v.data());
  });
}

// Gradients of p and n are sums over all elements: first over each row, then over rows in order, so
// that they do not depend on threads.
void backward(const KernelCall& call) {
  const Buffer x = call.in(0), dy = call.d_out(0), dx = call.d_in(0);
  const float beta = static_cast<float>(call.attrs.number("beta"));
  const float p = scalar(call.in(1)), n = scalar(call.in(2));
  const float ap = softplus(p), an = softplus(n) + beta;
  float* sums = call.workspace();  // [rows, 2]
  call.parallel_for(x.num_rows(), [&](std::int64_t row) {
    std::vector<float> v(static_cast<std::size_t>(x.width())), g(v.size());
    x.load(row, v.data());
    dy.load(row, g.data());
    float of_p = 0, of_n = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      const float e = v[i], less = e > 0 ? 0 : std::expm1(e);
      of_p += e > 0 ? g[i] * e * e : 0;
      of_n += e > 0 ? 0 : g[i] * (less - e);
      v[i] = g[i] * ((e > 0 ? 2 * ap * e : an * less) + beta);
    }
    dx.store(row, v.data());
    sums[2 * row] = of_p;
    sums[2 * row + 1] = of_n;
  });
  float of_p = 0, of_n = 0;
  for (std::int64_t row = 0; row < x.num_rows(); ++row) {
    of_p += sums[2 * row];
    of_n += sums[2 * row + 1];
  }
  of_p *= sigmoid(p);
  of_n *= sigmoid(n);
  call.d_in(1).store(0, &of_p);
  call.d_in(2).store(0, &of_n);
}

// Kernels loop over more work. The limit is the same on every GPU, and therefore results are.
constexpr std::int64_t kMostBlocks = 8192;

Numbers numbers(const Buffer& of) { return {of.data<void>(), of.dtype() == LAMINA_DTYPE_BF16}; }

void launch_forward(const GpuCall& call) {
  const std::int64_t count = call.in(0).num_rows() * call.in(0).width();
  call.launch("xielu_forward", {.blocks = std::min((count + 255) / 256, kMostBlocks)},
              ForwardParams{.x = numbers(call.in(0)),
                            .p = numbers(call.in(1)),
                            .n = numbers(call.in(2)),
                            .y = numbers(call.out(0)),
                            .count = count,
                            .beta = static_cast<float>(call.attrs.number("beta"))});
}

void launch_backward(const GpuCall& call) {
  const Numbers p = numbers(call.in(1)), n = numbers(call.in(2));
  const std::int64_t rows = call.in(0).num_rows();
  float* const sums = call.workspace();  // [rows, 2]
  call.launch("xielu_backward", {.blocks = std::min(rows, kMostBlocks)},
              BackwardParams{.x = numbers(call.in(0)),
                             .p = p,
                             .n = n,
                             .dy = numbers(call.d_out(0)),
                             .dx = numbers(call.d_in(0)),
                             .sums = sums,
                             .rows = rows,
                             .width = call.in(0).width(),
                             .beta = static_cast<float>(call.attrs.number("beta"))});
  call.launch("xielu_add_rows", {},
              SumParams{.sums = sums,
                        .p = p,
                        .n = n,
                        .dp = numbers(call.d_in(1)),
                        .dn = numbers(call.d_in(2)),
                        .rows = rows});
}

std::int64_t two_per_row(const KernelCall& call) { return 2 * call.in(0).num_rows(); }

constexpr CustomOp kXielu = {
    .name = "xielu.xielu",
    .inputs = "x p n",
    .attrs = "beta:f=0.5",
    .doc = "xIELU with the trained numbers p[1] and n[1]; Huang and Schlag 2024",
    .lower = lower,
    .forward = {.run = forward},
    .backward = {.run = backward, .workspace = two_per_row},
    .gpu_forward = {.run = launch_forward},
    .gpu_backward = {.run = launch_backward, .workspace = two_per_row}};

Tensor feed_forward(Scope s, const StandardConfig& c, Tensor x_BTD) {
  const auto number = [&](std::string_view name) {
    return s.param(name, {1}, {.axes = {axis::none}, .role = Role::scalar, .init = init::zeros});
  };
  Tensor h_BTF = linear(s / "up_proj", x_BTD, c.intermediate_size, {.out = axis::mlp});
  h_BTF = kXielu({h_BTF, number("alpha_p"), number("alpha_n")});
  return linear(s / "down_proj", h_BTF, c.hidden_size, {.in = axis::mlp, .tag = tags::mlpwo});
}

Tensor block(Scope s, const StandardConfig& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD += self_attention(s / "attention", h_BTD, step, c.attention_options());
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + feed_forward(s / "feed_forward", c, h_BTD);
}

constexpr Model<StandardConfig> kModel = {
    .family = {.name = "xielu", .doc = "a Llama block with the activation xIELU, a custom op"},
    .keys = [](Schema<StandardConfig>& key) { standard_keys(key, {}); },
    .blocks =
        [] {
          return std::vector<Block<StandardConfig>>{{1, "layer", block}};
        },
    .mtp_inputs = MtpInputs::none,
};

}  // namespace
}  // namespace xielu

LAMINA_PLUGIN("org.lamina.examples.xielu", "0.1.0", xielu::kModel, xielu::kXielu)
