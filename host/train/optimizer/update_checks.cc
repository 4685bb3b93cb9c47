#include "train/optimizer/update_checks.h"

#include <limits>
#include <vector>

#include "ops/tensor.h"
#include "train/optimizer/optimizer.h"

namespace lamina::train {

// Equal nodes follow each other, because a device may compute them in one call.
Graph measure_graph(std::span<const std::int64_t> elements) {
  Graph graph;
  std::vector<Tensor> gradients, squares, bad;
  for (const std::int64_t count : elements)
    gradients.push_back(graph.add_input("g", {DType::f32, {count}, {}}));
  for (const Tensor& g : gradients) squares.push_back(ops::sum_of_squares(g));
  for (std::size_t i = 0; i < gradients.size(); ++i)
    bad.push_back(ops::first_non_finite(gradients[i], squares[i]));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    graph.add_output("squares", squares[i]);
    graph.add_output("bad", bad[i]);
  }
  return graph;
}

Graph scalars_graph(std::int64_t n, bool is_first, double clip_norm) {
  Graph graph;
  const Type rows{DType::f64, {n, kCheckRow}, {}}, number{DType::f64, {}, {}};
  const Tensor checks = graph.add_input("checks", rows), numbers = graph.add_input("numbers", rows);
  const Tensor before =
      is_first ? ops::constant(graph, number, 1) : graph.add_input("updating", number);
  const Tensor squares = ops::slice(checks, 1, kSquares, 1);

  // Squares in f32 are far below the largest f64, so their sum is finite if all of them are.
  const Tensor sum = ops::reduce_sum(squares, {0, 1});
  const Tensor finite =
      ops::less_equal(sum, ops::number_like(sum, std::numeric_limits<double>::max()));
  const Tensor updating = ops::select(finite, before, ops::number_like(before, 0));

  const Tensor column = ops::iota(graph, {.shape = {1, kCheckRow}, .dtype = "f64", .dim = 1});
  const auto replaced = [&](Tensor x, std::size_t place, Tensor by) {
    return ops::select(ops::equal(column, ops::number_like(column, place)), by, x);
  };
  Tensor scalars = replaced(numbers, kMayChange, ops::reshape(updating, {1, 1}));
  if (clip_norm > 0) {
    const Tensor multiplier = ops::slice(numbers, 1, static_cast<std::int64_t>(kGradientScale), 1);
    const Tensor norm = ops::sqrt(squares * (multiplier * multiplier));
    const Tensor factor = ops::number_like(norm, clip_norm) / ops::shift(norm, kClipMargin);
    scalars = replaced(scalars, kGradientScale,
                       ops::minimum(factor, ops::number_like(factor, 1)) * multiplier);
  }
  graph.add_output("scalars", ops::cast(scalars, DType::f32));
  graph.add_output("updating", updating, is_first ? -1 : 2);
  return graph;
}

}  // namespace lamina::train
