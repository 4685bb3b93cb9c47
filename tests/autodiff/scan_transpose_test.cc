// Gradients of scans: equal to the gradients of the unrolled loop, and bit-equal for every policy.
#include "autodiff/scan_transpose.h"

#include <gtest/gtest.h>

#include "graph/rewrite.h"
#include "ops/op.h"
#include "support/run_graph.h"
#include "train/loop/remat_policies.h"

namespace lamina::testing {
namespace {

constexpr std::int64_t kLayers = 4, kWidth = 6, kRows = 5;

struct Operands {
  Type shared, carry, weight, bias;
  bool eight_dims;  // the inner activation has eight dims
  explicit Operands(DType d, bool deep = false)
      : shared{d, {kWidth}, {}},
        carry{d, {kRows, kWidth}, {}},
        weight{d, {kWidth, kWidth}, {}},
        bias{d, {kWidth}, {}},
        eight_dims(deep) {}
  Type stacked(const Type& type, std::int64_t layers = kLayers) const {
    return type.with(type.shape.with_leading(layers));
  }
};

// A small block: c' = c + linear(silu(rms_norm(c, shared) w + b)), and y = the norm's sum.
std::vector<Tensor> block(Tensor shared, Tensor c, Tensor w, Tensor b, bool eight_dims = false) {
  Tensor n = ops::call("rms_norm", {c, shared});
  Tensor h = ops::linear(n, w, b);
  h.graph->set_tag(h.id, "mlpwi");
  if (eight_dims) h = ops::reshape(h, {1, 1, 1, 1, 1, 1, kRows, kWidth});
  Tensor a = ops::reshape(ops::call("silu", {h}), {kRows, kWidth});
  Tensor out = ops::linear(a, w);
  out.graph->set_tag(out.id, "mlpwo");
  return {c + out, ops::reduce_sum(n, {0})};
}

std::shared_ptr<const Graph> body(const Operands& t) {
  auto g = std::make_shared<Graph>();
  Tensor shared = g->add_input("shared", t.shared), c = g->add_input("c", t.carry);
  Tensor w = g->add_input("w", t.weight), b = g->add_input("b", t.bias);
  auto results = block(shared, c, w, b, t.eight_dims);
  g->add_output("c", results[0]);
  g->add_output("y", results[1]);
  return g;
}

std::vector<Tensor> inputs_of(Graph& g, const Operands& t) {
  return {g.add_input("shared", t.shared), g.add_input("c", t.carry),
          g.add_input("w", t.stacked(t.weight)), g.add_input("b", t.stacked(t.bias))};
}

std::vector<Tensor> scanned(const std::vector<Tensor>& in, const Operands& t, bool reverse) {
  return ops::call_all("scan", {in[0], in[1], in[2], in[3]},
                       {{"body", body(t)},
                        {"times", kLayers},
                        {"num_consts", std::int64_t{1}},
                        {"num_carries", std::int64_t{1}},
                        {"reverse", std::int64_t{reverse}}});
}

std::vector<Tensor> unrolled(const std::vector<Tensor>& in, bool reverse) {
  Tensor c = in[1];
  std::vector<Tensor> ys(kLayers);
  for (std::int64_t step = 0; step < kLayers; ++step) {
    const std::int64_t i = reverse ? kLayers - 1 - step : step;
    Tensor w = ops::reshape(ops::slice(in[2], 0, i, 1), {kWidth, kWidth});
    Tensor b = ops::reshape(ops::slice(in[3], 0, i, 1), {kWidth});
    auto results = block(in[0], c, w, b);
    c = results[0];
    ys[static_cast<std::size_t>(i)] = ops::reshape(results[1], {1, kWidth});
  }
  return {c, ops::call_all("concat", ys, {}).front()};
}

// Results, and the gradients of a projection of the results by every input.
Graph differentiated(Graph g, const std::vector<Tensor>& in, std::vector<Tensor> results,
                     const autodiff::SavePolicy& save) {
  std::vector<Tensor> wanted, seeds;
  for (const Tensor& t : in) wanted.push_back(g.tensor(t.id));
  for (Tensor& r : results) {
    r = g.tensor(r.id);
    seeds.push_back(ops::call("scale", {ops::constant(g, r.type(), 0.5)}));
    g.add_output("result", r);
  }
  for (Tensor grad : autodiff::vjp(g, results, seeds, wanted, save)) g.add_output("gradient", grad);
  return g;
}

std::vector<Array> numbers(const Operands& t) {
  std::mt19937 random(11);
  return {random_array(t.shared, random, 0.5, 1.5), random_array(t.carry, random),
          random_array(t.stacked(t.weight), random), random_array(t.stacked(t.bias), random)};
}

std::vector<Array> run_scanned(DType dtype, const autodiff::SavePolicy& save,
                               bool reverse = false) {
  Operands t(dtype);
  Graph g;
  auto in = inputs_of(g, t);
  auto results = scanned(in, t, reverse);
  return run(differentiated(std::move(g), in, results, save), numbers(t));
}

TEST(ScanTranspose, GradientEqualsTheUnrolledLoop) {
  for (bool reverse : {false, true}) {
    Operands t(DType::f64);
    Graph g;
    auto in = inputs_of(g, t);
    auto results = unrolled(in, reverse);
    auto want =
        run(differentiated(std::move(g), in, results, autodiff::save_everything()), numbers(t));
    auto got = run_scanned(DType::f64, autodiff::save_everything(), reverse);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      for (std::int64_t e = 0; e < got[i].type.num_elements(); ++e)
        ASSERT_NEAR(get(got[i], e), get(want[i], e), 1e-11) << "output " << i << ", element " << e;
  }
}

TEST(ScanTranspose, EveryPolicyGivesTheSameBits) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    auto want = run_scanned(dtype, autodiff::save_everything());
    for (const train::RematPolicy& policy : train::remat_policies()) {
      auto got = run_scanned(dtype, policy.save_policy());
      for (std::size_t i = 0; i < want.size(); ++i)
        EXPECT_EQ(got[i].bytes, want[i].bytes) << policy.name << ", output " << i;
    }
  }
}

std::size_t scan_results(const autodiff::SavePolicy& save) {
  Operands t(DType::f32);
  Graph g;
  auto in = inputs_of(g, t);
  auto results = scanned(in, t, false);
  g = differentiated(std::move(g), in, results, save);
  return g.nodes()[0].outputs.size();
}

TEST(ScanTranspose, PolicyDecidesTheKeptValues) {
  // Saved: carry and y; then also the layer's input; then also the tagged value; then every read
  // value.
  EXPECT_EQ(scan_results(train::find_remat_policy("full").save_policy()), 3u);
  EXPECT_EQ(scan_results(autodiff::SavePolicy([](std::string_view tag) { return tag == "mlpwi"; })),
            4u);
  EXPECT_GT(scan_results(autodiff::save_everything()), 4u);
}

// Two groups of two layers: an outer scan whose body is a scan.
std::vector<Array> run_nested(const Operands& t, bool keep) {
  auto outer_body = std::make_shared<Graph>();
  std::vector<Tensor> in = {outer_body->add_input("shared", t.shared),
                            outer_body->add_input("c", t.carry),
                            outer_body->add_input("w", t.stacked(t.weight, 2)),
                            outer_body->add_input("b", t.stacked(t.bias, 2))};
  auto inner = ops::call_all("scan", {in[0], in[1], in[2], in[3]},
                             {{"body", body(t)},
                              {"times", std::int64_t{2}},
                              {"num_consts", std::int64_t{1}},
                              {"num_carries", std::int64_t{1}}});
  outer_body->add_output("c", inner[0]);
  outer_body->add_output("y", inner[1]);

  Graph g;
  auto flat = inputs_of(g, t);
  Tensor w = ops::reshape(flat[2], {2, 2, kWidth, kWidth}),
         b = ops::reshape(flat[3], {2, 2, kWidth});
  auto results = ops::call_all("scan", {flat[0], flat[1], w, b},
                               {{"body", std::shared_ptr<const Graph>(outer_body)},
                                {"times", std::int64_t{2}},
                                {"num_consts", std::int64_t{1}},
                                {"num_carries", std::int64_t{1}}});
  results[1] = ops::reshape(results[1], {kLayers, kWidth});
  const auto save =
      keep ? autodiff::save_everything() : train::find_remat_policy("full").save_policy();
  return run(differentiated(std::move(g), flat, results, save), numbers(t));
}

TEST(ScanTranspose, NestedScansEqualOneLongScan) {
  const auto want = run_scanned(DType::f64, autodiff::save_everything());
  for (bool keep : {true, false}) {
    const auto got = run_nested(Operands(DType::f64), keep);
    for (std::size_t i = 0; i < got.size(); ++i)
      for (std::int64_t e = 0; e < got[i].type.num_elements(); ++e)
        ASSERT_NEAR(get(got[i], e), get(want[i], e), 1e-11) << "output " << i << ", element " << e;
  }
}

// Each scan adds a dim to the values that are kept for the backward pass.
TEST(ScanTranspose, NestedScansKeepValuesOfEightDims) {
  const auto want = run_nested(Operands(DType::f32), true);
  const auto got = run_nested(Operands(DType::f32, true), true);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].bytes, want[i].bytes) << i;
}

// A sum of halves in bfloat16 ends at 128.
TEST(ScanTranspose, GradientsOfConstsAreSummedInFloat32) {
  constexpr std::int64_t kTimes = 600;
  for (DType dtype : {DType::bf16, DType::f16}) {
    const Type row{dtype, {1}, {}}, rows = row.with(row.shape.with_leading(kTimes));
    auto body = std::make_shared<Graph>();
    Tensor w = body->add_input("w", row);
    body->add_output("y", w * body->add_input("x", row));
    Graph g;
    const std::vector<Tensor> in = {g.add_input("w", row), g.add_input("x", rows)};
    const auto results = ops::call_all("scan", {in[0], in[1]},
                                       {{"body", std::shared_ptr<const Graph>(body)},
                                        {"times", kTimes},
                                        {"num_consts", std::int64_t{1}},
                                        {"num_carries", std::int64_t{0}}});
    const auto got = run(differentiated(std::move(g), in, results, autodiff::save_everything()),
                         {array(row, {1}), array(rows, Doubles(kTimes, 1))});
    EXPECT_EQ(got[1].type.dtype, DType::f32);
    EXPECT_EQ(get(got[1], 0), 300) << name(dtype);
  }
}

TEST(ScanTranspose, UnwantedOperandsCostNothing) {
  Operands t(DType::f32);
  Graph g;
  auto in = inputs_of(g, t);
  auto results = scanned(in, t, false);
  Tensor seed = ops::constant(g, results[0].type(), 1);
  auto grads = autodiff::vjp(g, std::span(results).first(1), std::span(&seed, 1),
                             std::span(in).last(1), autodiff::save_everything());
  ASSERT_TRUE(grads[0]);
  const Node& back = g.nodes().back();
  // The cotangents of the carry and of b.
  EXPECT_EQ(back.op->name, "scan");
  EXPECT_EQ(back.outputs.size(), 2u);
}

TEST(ScanTranspose, EqualScansShareTheirTranspose) {
  Operands t(DType::f64);
  auto shared = body(t);
  auto scan = [&](const std::vector<Tensor>& in, Tensor c, std::shared_ptr<const Graph> layer) {
    return ops::call_all("scan", {in[0], c, in[2], in[3]},
                         {{"body", std::move(layer)},
                          {"times", kLayers},
                          {"num_consts", std::int64_t{1}},
                          {"num_carries", std::int64_t{1}}});
  };
  auto made = [&](bool share) {
    Graph g;
    auto in = inputs_of(g, t);
    auto first = scan(in, in[1], share ? shared : body(t));
    auto second = scan(in, first[0], share ? shared : body(t));
    return differentiated(std::move(g), in, {second[0], first[1], second[1]},
                          train::find_remat_policy("minimal").save_policy());
  };
  Graph g = made(true);
  std::vector<const Graph*> forward, backward;
  for (const Node& node : g.nodes())
    if (node.op->name == "scan")
      (node.int_attr("reverse") ? backward : forward).push_back(node.body().get());
  ASSERT_EQ(forward.size(), 2u);
  ASSERT_EQ(backward.size(), 2u);
  EXPECT_EQ(forward[0], forward[1]);
  EXPECT_EQ(backward[0], backward[1]);
  auto got = run(g, numbers(t)), want = run(made(false), numbers(t));
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].bytes, want[i].bytes);
}

// y of the first scan is not differentiated, so its transpose takes no cotangent of y.
TEST(ScanTranspose, ScansOfOneBodyWithOtherCotangentsDiffer) {
  Operands t(DType::f32);
  auto shared = body(t);
  Graph g;
  auto in = inputs_of(g, t);
  auto scan = [&](Tensor c) {
    return ops::call_all("scan", {in[0], c, in[2], in[3]},
                         {{"body", shared},
                          {"times", kLayers},
                          {"num_consts", std::int64_t{1}},
                          {"num_carries", std::int64_t{1}}});
  };
  auto first = scan(in[1]), second = scan(first[0]);
  g = differentiated(std::move(g), in, {second[0], second[1]}, autodiff::save_everything());
  std::vector<std::size_t> operands;
  for (const Node& node : g.nodes())
    if (node.op->name == "scan" && node.int_attr("reverse")) operands.push_back(node.inputs.size());
  ASSERT_EQ(operands.size(), 2u);
  EXPECT_EQ(operands[0], operands[1] + 1);
}

}  // namespace
}  // namespace lamina::testing
