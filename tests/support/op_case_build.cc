#include "support/op_case_build.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "ops/registry.h"

namespace lamina::testing {
namespace {

Type type_of(const In& in, DType dtype) { return {in.dtype.value_or(dtype), in.shape, {}}; }

// Inputs have numbers that `rounded` can represent, in any `dtype`.
Array numbers_of(const In& in, DType dtype, DType rounded, std::mt19937& random) {
  Array a = in.values.empty() ? random_array(type_of(in, rounded), random, in.low, in.high)
                              : array(type_of(in, rounded), in.values);
  if (in.widens && dtype == DType::f64) return converted(a, dtype);
  return in.dtype ? a : converted(a, dtype);
}

// True for equal numbers, for two NaNs, and for the lse of a query without keys: -infinity here,
// -1e30 there.
bool are_alike(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b)) || (a < -1e29 && b < -1e29);
}

}  // namespace

void build(const OpCases& list, const OpCase& c, DType dtype, DType rounded, Built& out) {
  std::mt19937 random(17);
  for (const In& in : c.inputs) {
    if (in.absent) {
      out.operands.push_back({});
      continue;
    }
    out.inputs.push_back(numbers_of(in, dtype, rounded, random));
    out.operands.push_back(
        out.graph.add_input("in" + std::to_string(out.operands.size()), out.inputs.back().type));
  }
  std::vector<std::pair<std::string_view, AttrValue>> attrs;
  for (const auto& [name, value] : c.attrs) attrs.emplace_back(name, value);
  out.results = out.graph.add_node(ops::get(list.op), out.operands, attrs);
}

void add_outputs(Graph& graph, std::span<const Tensor> results) {
  for (std::size_t i = 0; i < results.size(); ++i)
    graph.add_output("out" + std::to_string(i), results[i]);
}

void for_each(const OpCases& list, const std::function<void(const OpCase&, DType)>& check) {
  for (const OpCase& c : list.cases)
    for (DType dtype : c.dtypes.empty() ? list.dtypes : c.dtypes) {
      SCOPED_TRACE(fmt::format("{}, {}, {}", list.op, c.name, name(dtype)));
      try {
        check(c, dtype);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    }
}

void expect_close(const Array& got, const Doubles& want, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(static_cast<std::size_t>(got.type.num_elements()), want.size()) << what;
  double largest = 0;
  for (double w : want)
    if (std::abs(w) < 1e29) largest = std::max(largest, std::abs(w));
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double g = get(got, static_cast<std::int64_t>(i));
    if (are_alike(g, want[i])) continue;
    const double allowed = tolerance * std::max(largest, 1e-3);
    ASSERT_LE(std::abs(g - want[i]), allowed)
        << what << ": element " << i << " of " << to_string(got.type) << " is " << g
        << ", expected " << want[i];
  }
}

}  // namespace lamina::testing
