// scan: its shape rule and its results.
#include "ops/op.h"
#include "ops/registry.h"
#include "support/expect_error.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

const Type kRow{DType::f32, {3}, {}};

// c' = c * w + x, y = c' + k for const k, carry c, layers' w and x.
std::shared_ptr<const Graph> body() {
  auto g = std::make_shared<Graph>();
  Tensor k = g->add_input("k", kRow), c = g->add_input("c", kRow);
  Tensor w = g->add_input("w", kRow), x = g->add_input("x", kRow);
  Tensor next = c * w + x;
  g->add_output("c", next);
  g->add_output("y", next + k);
  return g;
}

Graph scan_graph(std::int64_t times, std::int64_t reverse = 0) {
  Graph g;
  Type stacked = kRow.with(kRow.shape.with_leading(times));
  auto results = ops::call_all("scan",
                               {g.add_input("k", kRow), g.add_input("c", kRow),
                                g.add_input("w", stacked), g.add_input("x", stacked)},
                               {{"body", body()},
                                {"times", times},
                                {"num_consts", std::int64_t{1}},
                                {"num_carries", std::int64_t{1}},
                                {"reverse", reverse}});
  g.add_output("c", results[0]);
  g.add_output("y", results[1]);
  return g;
}

void expect_scan(std::int64_t times, bool reverse) {
  std::mt19937 random(1);
  Type stacked = kRow.with(kRow.shape.with_leading(times));
  std::vector<Array> in = {random_array(kRow, random), random_array(kRow, random),
                           random_array(stacked, random), random_array(stacked, random)};
  std::vector<Array> out = run(scan_graph(times, reverse), in);
  std::vector<float> c(3);
  for (std::int64_t i = 0; i < 3; ++i)
    c[static_cast<std::size_t>(i)] = static_cast<float>(get(in[1], i));
  for (std::int64_t step = 0; step < times; ++step) {
    const std::int64_t layer = reverse ? times - 1 - step : step;
    for (std::int64_t i = 0; i < 3; ++i) {
      float& carry = c[static_cast<std::size_t>(i)];
      const float product = carry * static_cast<float>(get(in[2], layer * 3 + i));
      carry = product + static_cast<float>(get(in[3], layer * 3 + i));
      EXPECT_EQ(static_cast<float>(get(out[1], layer * 3 + i)),
                carry + static_cast<float>(get(in[0], i)));
      EXPECT_TRUE(step + 1 < times || static_cast<float>(get(out[0], i)) == carry);
    }
  }
}

TEST(Scan, CarriesFromLayerToLayer) {
  for (std::int64_t times : {1, 2, 3, 7}) expect_scan(times, false);
}
TEST(Scan, ReverseStartsAtTheLastLayer) {
  for (std::int64_t times : {1, 2, 3, 7}) expect_scan(times, true);
}

TEST(Scan, RejectsOperandWithoutLayers) {
  Graph g;
  EXPECT_ERROR_SAYS(ops::call_all("scan",
                                  {g.add_input("k", kRow), g.add_input("c", kRow),
                                   g.add_input("w", kRow), g.add_input("x", kRow)},
                                  {{"body", body()},
                                   {"times", std::int64_t{4}},
                                   {"num_consts", std::int64_t{1}},
                                   {"num_carries", std::int64_t{1}}}),
                    ExitCode::usage, "operand 2 ('w') must be f32[4, 3], got f32[3]");
}

TEST(Scan, IsNotMergedWithItsTwin) {
  // Scans may write state in place.
  Graph g = scan_graph(2);
  EXPECT_FALSE(same_graph(g, scan_graph(3)));
  EXPECT_FALSE(same_graph(g, scan_graph(2, 1)));
  EXPECT_TRUE(same_graph(g, scan_graph(2)));
}

}  // namespace
}  // namespace lamina::testing
