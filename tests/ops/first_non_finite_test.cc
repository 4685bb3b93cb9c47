// Cases of first_non_finite.
#include <cmath>
#include <limits>

#include "ops/tensor.h"
#include "support/op_cases.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

OpCase search(std::string name, std::vector<double> x, double squares) {
  const auto size = static_cast<std::int64_t>(x.size());
  return {.name = std::move(name),
          .inputs = {{.shape = {size}, .dtype = DType::f32, .values = std::move(x)},
                     {.shape = {}, .dtype = DType::f64, .values = {squares}}},
          .expect = [](const std::vector<Doubles>&) -> std::vector<Doubles> {
            return {{-1, 0}};
          },
          .gradient = false};
}

const OpCases kCases = {
    .op = "first_non_finite",
    .dtypes = {DType::f32},
    .cases = {search("all finite", {1, -2, 3}, 14),
              search("none found", {1, 2}, std::numeric_limits<double>::infinity()),
              search("nothing", {}, 0)},
    .num_differentiable = 0};

LAMINA_TEST_OP(FirstNonFinite, kCases)

Doubles found_in(std::initializer_list<double> values) {
  const Type type{DType::f32, {static_cast<std::int64_t>(values.size())}, {}};
  Graph graph;
  const Tensor x = graph.add_input("x", type);
  graph.add_output("y", ops::first_non_finite(x, ops::sum_of_squares(x)));
  return to_doubles(run(graph, {array(type, values)})[0]);
}

TEST(FirstNonFinite, ReturnsItsIndexAndValue) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(found_in({1, 2, -infinity, infinity}), (Doubles{2, -infinity}));
  const Doubles found = found_in({1, std::nan(""), infinity});
  EXPECT_EQ(found[0], 1);
  EXPECT_TRUE(std::isnan(found[1]));
}

}  // namespace
}  // namespace lamina::testing
