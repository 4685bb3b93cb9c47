// Cases of cross_entropy and its gradient.
#include "support/op_cases.h"

#ifdef LAMINA_TEST_ON_GPU
#include <utility>

#include "backends/cuda/cross_entropy/blocks.h"
#endif

namespace lamina::testing {
namespace {

using Attrs = std::vector<std::pair<std::string, AttrValue>>;

In x_of(std::int64_t rows, std::int64_t width) {
  return {.shape = {rows, width}, .low = -2, .high = 2};
}
In w_of(std::int64_t vocabulary, std::int64_t width) { return {.shape = {vocabulary, width}}; }

OpCase loss(std::string name, std::int64_t rows, std::int64_t vocabulary, std::int64_t width,
            In labels, Attrs attrs = {}) {
  return {.name = std::move(name),
          .inputs = {x_of(rows, width), w_of(vocabulary, width), std::move(labels)},
          .attrs = std::move(attrs)};
}

OpCase with_bias(OpCase c) {
  c.name += ", with a bias";
  c.inputs.push_back({.shape = {c.inputs[1].shape[0]}});
  return c;
}

const OpCases kCases = {
    .op = "cross_entropy",
    .cases = {loss("some tokens", 5, 23, 7, ints({5}, {0, 22, -100, 3, 3})),
              loss("soft cap", 4, 17, 8, ints({4}, 0, 16), {{"soft_cap", 3.0}}),
              loss("scaled logits", 4, 17, 8, ints({4}, 0, 16), {{"logit_scale", 0.25}}),
              with_bias(loss("some tokens", 5, 23, 7, ints({5}, {0, 22, -100, 3, 3}))),
              with_bias(loss("cap and scale", 4, 17, 8, ints({4}, 0, 16),
                             {{"soft_cap", 3.0}, {"logit_scale", 0.25}})),
              loss("nothing counts", 2, 9, 4, ints({2}, {-1, -100})),
              loss("no tokens", 0, 9, 4, ints({0}, 0, 1))},
    .num_differentiable = 4};

// The bias as the host passes it: f32 for every type of the products.
OpCase with_f32_bias(OpCase c) {
  c = with_bias(std::move(c));
  c.inputs.back().dtype = DType::f32;
  c.inputs.back().widens = true;
  return c;
}

// More rows and columns than a tile: too large for finite differences.
const OpCases kTiles = {
    .op = "cross_entropy",
    .dtypes = {DType::f32, DType::bf16},
    .cases = {loss("many tokens", 530, 50, 4, ints({530}, 0, 49)),
              loss("very many tokens", 1040, 9, 2, ints({1040}, -1, 8)),
              loss("a large vocabulary", 3, 8200, 4, ints({3}, {0, 8191, 8199})),
              with_f32_bias(loss("a large vocabulary", 3, 8200, 4, ints({3}, {0, 8191, 8199})))}};

OpCase grad(std::string name, std::int64_t rows, std::int64_t vocabulary, std::int64_t width,
            In labels, double dloss, double dz, Attrs attrs = {}) {
  OpCase c = loss(std::move(name), rows, vocabulary, width, std::move(labels), std::move(attrs));
  c.inputs.push_back({.shape = {}, .values = {dloss}});
  c.inputs.push_back({.shape = {}, .values = {dz}});
  c.gradient = false;
  return c;
}

// `duniform` belongs to uniform_loss, and to each row of token_loss.
OpCase grad_of_all(std::string name, std::int64_t rows, std::int64_t vocabulary, std::int64_t width,
                   In labels, double dloss, double dz, double duniform, Attrs attrs = {}) {
  OpCase c = grad(std::move(name), rows, vocabulary, width, std::move(labels), dloss, dz,
                  std::move(attrs));
  c.inputs.push_back(kAbsent);
  c.inputs.push_back({.shape = {}, .values = {duniform}});
  c.inputs.push_back({.shape = {rows}});
  return c;
}

// Adds to an existing gradient.
OpCase summed_grad(std::string name, std::int64_t rows, std::int64_t vocabulary, In labels) {
  constexpr std::int64_t kWidth = 7;
  OpCase c = grad(std::move(name), rows, vocabulary, kWidth, std::move(labels), 0.5, 0);
  c.inputs.resize(8, kAbsent);
  c.inputs.push_back({.shape = {vocabulary, kWidth}});
  return c;
}

// With label smoothing.
OpCase smoothed_grad(std::string name, In labels, double dloss, double dz, double duniform,
                     Attrs attrs = {}) {
  OpCase c = grad(std::move(name), 5, 23, 7, std::move(labels), dloss, dz, std::move(attrs));
  c.inputs.push_back(kAbsent);
  c.inputs.push_back({.shape = {}, .values = {duniform}});
  return c;
}

OpCases grads() {
  OpCases out{
      .op = "cross_entropy_grad",
      .dtypes = {DType::f32, DType::f64},
      .cases = {grad("some tokens", 5, 23, 7, ints({5}, {0, 22, -100, 3, 3}), 0.5, 0),
                grad("z-loss", 5, 23, 7, ints({5}, 0, 22), 0.5, 0.125),
                grad("z-loss alone", 5, 23, 7, ints({5}, 0, 22), 0, 0.125),
                grad("no loss at all", 5, 23, 7, ints({5}, 0, 22), 0, 0),
                grad("soft cap", 4, 17, 8, ints({4}, 0, 16), 1, 0.125, {{"soft_cap", 3.0}}),
                grad("scaled logits", 4, 17, 8, ints({4}, 0, 16), 1, 0, {{"logit_scale", 0.25}}),
                with_f32_bias(grad("some tokens", 5, 23, 7, ints({5}, {0, 22, -100, 3, 3}), 1, 0.1,
                                   {{"logit_scale", 0.25}, {"soft_cap", 3.0}})),
                grad("no tokens", 0, 9, 4, ints({0}, 0, 1), 1, 0),
                with_f32_bias(grad("no tokens", 0, 9, 4, ints({0}, 0, 1), 1, 0)),
                summed_grad("a sum", 5, 23, ints({5}, {0, 22, -100, 3, 3})),
                summed_grad("a sum of as many rows", 23, 23, ints({23}, 0, 22)),
                summed_grad("a sum without tokens", 0, 9, ints({0}, 0, 1)),
                grad("a large vocabulary", 3, 8200, 4, ints({3}, {0, 8191, -1}), 1, 0.125),
                smoothed_grad("smoothing", ints({5}, {0, 22, -100, 3, 3}), 0.9, 0.125, 0.1),
                smoothed_grad("smoothing alone", ints({5}, 0, 22), 0, 0, 0.1),
                smoothed_grad("smoothing under a cap", ints({5}, 0, 22), 0.9, 0, 0.1,
                              {{"soft_cap", 3.0}, {"logit_scale", 0.25}}),
                grad_of_all("of each token", 5, 23, 7, ints({5}, {0, 22, -100, 3, 3}), 0, 0, 0),
                grad_of_all("of everything", 5, 23, 7, ints({5}, {0, 22, -100, 3, 3}), 0.5, 0.125,
                            0.1, {{"soft_cap", 3.0}, {"logit_scale", 0.25}})}};
  return out;
}

OpCases bf16_grads() {
  OpCases out = grads();
  // All inputs but x and w are f32.
  out.dtypes = {DType::bf16};
  for (OpCase& c : out.cases) {
    for (std::size_t i : {3, 4, 6, 7, 8})
      if (i < c.inputs.size() && !c.inputs[i].absent)
        c.inputs[i].dtype = DType::f32, c.inputs[i].widens = true;
    c.sums_rounded = true;
  }
  return out;
}

const OpCases kGrad = grads();
const OpCases kGradBf16 = bf16_grads();

// More than one block of rows; f32 sums over 140,000 columns lose digits.
const OpCases kGradBlocks = {
    .op = "cross_entropy_grad",
    .dtypes = {DType::f32},
    .cases = {grad("blocks", 270, 139999, 1, ints({270}, 0, 139998), 1, 0)}};

LAMINA_TEST_OP(CrossEntropy, kCases)
LAMINA_TEST_OP(CrossEntropyInTiles, kTiles)
LAMINA_TEST_OP(CrossEntropyGrad, kGrad)

OpCases blocks() {
  OpCases list = kGradBlocks;
  list.cases[0].loosen = 200;  // with AVX2 a sum has fewer parts, and longer ones
  list.cases[0].large = true;
  return list;
}

#ifdef LAMINA_TEST_ON_GPU
TEST(CrossEntropyGrad, KernelsOfTheGpuTakeBf16) { check_gpu_kernels(kGradBf16); }
TEST(CrossEntropyGrad, BlocksOfRowsOfTheGpuAddUp) {
  const std::int64_t before = std::exchange(cuda::most_logit_bytes, std::int64_t{128} << 20);
  check_gpu_kernels(blocks());
  cuda::most_logit_bytes = before;
}
#else
TEST(CrossEntropyGrad, KernelsTakeBf16) { check_kernels(kGradBf16); }
TEST(CrossEntropyGrad, BlocksOfRowsAddUp) { check_kernels(blocks()); }
#endif

}  // namespace
}  // namespace lamina::testing
