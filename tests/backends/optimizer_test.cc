// Optimizer steps are bit-equal for every division of the work, and sums of squares are exact.
// tests/ops tests the values of a step.
#include <algorithm>

#include "ops/tensor.h"
#include "support/run_graph.h"
#include "vector_support.h"

namespace lamina::cpu {
namespace {

using lamina::testing::Array;
using lamina::testing::array;
using lamina::testing::Doubles;
using lamina::testing::run;
using lamina::testing::to_doubles;

constexpr ops::AdamwAttrs kAdamw{
    .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .copy = true};

Array normal_array(const Type& type, unsigned seed, float scale = 1.0f) {
  const std::vector<float> values =
      normal_floats(static_cast<std::size_t>(type.num_elements()), seed, scale);
  return array(type, Doubles(values.begin(), values.end()));
}

// Learning rate, gradient scale, corrections, and that elements may change.
Tensor scalars(Graph& graph) { return graph.add_input("scalars", {DType::f32, {5}, {}}); }
Array scalars() { return array({DType::f32, {5}, {}}, {0.01, 0.5, 0.271, 0.142625, 1}); }

// p, m, v and the copy in bf16.
using State = std::vector<Doubles>;

State state_of(const std::vector<Array>& results) {
  State out;
  for (const Array& result : results) out.push_back(to_doubles(result));
  return out;
}

// A step over p, g, m and v.
Graph step_graph(const Type& type) {
  Graph graph;
  auto input = [&](const char* name) { return graph.add_input(name, type); };
  const ops::AdamwInputs in{.p = input("p"),
                            .g = input("g"),
                            .m = input("m"),
                            .v = input("v"),
                            .scalars = scalars(graph)};
  const auto now = ops::adamw(in, kAdamw);
  graph.add_output("p", now.p_out, 0);
  graph.add_output("m", now.m_out, 2);
  graph.add_output("v", now.v_out, 3);
  graph.add_output("copy", now.copy);
  return graph;
}

struct Start {
  explicit Start(const Type& type)
      : p(normal_array(type, 1)), m(normal_array(type, 2)), v(normal_array(type, 3)) {
    for (std::int64_t i = 0; i < type.num_elements(); ++i) set(v, i, get(v, i) * get(v, i));
  }
  Array p, m, v;
};

State run_adamw(const Type& type, const Array& gradient) {
  const Start start(type);
  return state_of(run(step_graph(type), {start.p, gradient, start.m, start.v, scalars()}));
}

TEST(AdamW, SameBitsForAnyNumberOfThreads) {
  const Type type{DType::f32, {100003}, {}};
  for_each_isa([&] {
    expect_same_for_any_threads([&] { return run_adamw(type, normal_array(type, 4, 0.1f)); });
  });
}

// The gradient of a table of 300 rows that has only the rows `ids`.
struct RowGradient {
  RowGradient(std::int64_t width, const std::vector<std::int32_t>& row_ids)
      : table{DType::f32, {300, width}, {}},
        ids(array({DType::i32, {std::ssize(row_ids)}, {}},
                  Doubles(row_ids.begin(), row_ids.end()))),
        rows(normal_array({DType::f32, {std::ssize(row_ids), width}, {}}, 4, 0.1f)) {}

  Array whole() const {
    Array out = lamina::testing::zeros(table);
    const std::int64_t width = table.dim(1);
    for (std::int64_t k = 0; k < ids.type.dim(0); ++k) {
      const auto row = static_cast<std::int64_t>(get(ids, k));
      if (row < table.dim(0))
        for (std::int64_t c = 0; c < width; ++c)
          set(out, row * width + c, get(rows, k * width + c));
    }
    return out;
  }

  Type table;
  Array ids, rows;
};

State run_rows(const RowGradient& gradient, bool lazy = false) {
  Graph graph;
  auto table = [&](const char* name) { return graph.add_input(name, gradient.table); };
  ops::AdamwRowsInputs in{.p = table("p"),
                          .ids = graph.add_input("ids", gradient.ids.type),
                          .g = graph.add_input("g", gradient.rows.type),
                          .m = table("m"),
                          .v = table("v"),
                          .scalars = scalars(graph)};
  in.copy = graph.add_input("copy", gradient.table.with(DType::bf16));
  const auto now = ops::adamw_rows(in, {.beta1 = kAdamw.beta1,
                                        .beta2 = kAdamw.beta2,
                                        .eps = kAdamw.eps,
                                        .weight_decay = kAdamw.weight_decay,
                                        .lazy = lazy});
  graph.add_output("p", now.p_out, 0);
  graph.add_output("m", now.m_out, 3);
  graph.add_output("v", now.v_out, 4);
  graph.add_output("copy", now.copy_out, 6);
  const Start start(gradient.table);
  return state_of(run(graph, {start.p, gradient.ids, gradient.rows, start.m, start.v, scalars(),
                              lamina::testing::zeros(gradient.table.with(DType::bf16))}));
}

TEST(AdamWRows, HaveTheBitsOfTheWholeGradient) {
  for_each_isa([] {
    for (std::int64_t width : {1, 5, 16, 33, 500})
      for (const std::vector<std::int32_t>& ids :
           {std::vector<std::int32_t>{}, {0}, {299}, {0, 1, 17, 298, 299, 300, 300}, {300}}) {
        const RowGradient gradient(width, ids);
        EXPECT_EQ(run_rows(gradient), run_adamw(gradient.table, gradient.whole()));
        expect_same_for_any_threads([&] { return run_rows(gradient); });
      }
  });
}

TEST(AdamWRows, LazyOnesTouchNothingElse) {
  for_each_isa([] {
    constexpr std::int64_t kWidth = 37;
    const RowGradient gradient(kWidth, {2, 17, 18, 300});
    const State lazy = run_rows(gradient, true), all = run_rows(gradient);
    const Start start(gradient.table);
    const State before{to_doubles(start.p), to_doubles(start.m), to_doubles(start.v),
                       Doubles(lazy[0].size())};
    for (std::int64_t i = 0; i < 300 * kWidth; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const bool listed = i / kWidth == 2 || i / kWidth == 17 || i / kWidth == 18;
      for (std::size_t part = 0; part < lazy.size(); ++part)
        ASSERT_EQ(lazy[part][at], (listed ? all : before)[part][at]);
    }
    expect_same_for_any_threads([&] { return run_rows(gradient, true); });
  });
}

double sum_of_squares(const Array& x) {
  Graph graph;
  graph.add_output("y", ops::sum_of_squares(graph.add_input("x", x.type)));
  return to_doubles(run(graph, {x})[0])[0];
}

TEST(SumOfSquares, MatchesDoubleAndIsTheSameForAnyThreads) {
  for_each_isa([] {
    for (std::int64_t n : {0, 1, 17, 16384, 16385, 300007}) {
      const Array x = normal_array({DType::f32, {n}, {}}, 2);
      double want = 0;
      for (double v : to_doubles(x)) want += v * v;
      expect_same_for_any_threads([&] { return sum_of_squares(x); });
      EXPECT_NEAR(sum_of_squares(x), want, 1e-11 * want);
    }
  });
}

TEST(SumOfSquares, DoesNotOverflowInF32) {
  const Array x = array({DType::f32, {4}, {}}, {3e38, 3e38, 3e38, 3e38});
  EXPECT_NEAR(sum_of_squares(x) / (4 * number(3e38f) * number(3e38f)), 1, 1e-12);
}

}  // namespace
}  // namespace lamina::cpu
