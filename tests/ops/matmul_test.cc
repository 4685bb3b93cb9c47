// Cases of matmul.
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

using Transposes = std::pair<bool, bool>;

// a[batch, m, k] b[batch, k, n] (+ acc) in plain loops.
OpCase product(std::string name, std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k,
               Transposes t, bool acc) {
  auto shape = [&](std::int64_t rows, std::int64_t columns, bool transposed) {
    if (transposed) std::swap(rows, columns);
    return batch == 1 ? Shape{rows, columns} : Shape{batch, rows, columns};
  };
  OpCase c{
      .name = std::move(name),
      .inputs = {{.shape = shape(m, k, t.first)}, {.shape = shape(k, n, t.second)}},
      .attrs = {{"transpose_a", std::int64_t{t.first}}, {"transpose_b", std::int64_t{t.second}}},
      .expect = [=](const std::vector<Doubles>& in) {
        Doubles y(static_cast<std::size_t>(batch * m * n));
        for (std::int64_t b = 0; b < batch; ++b)
          for (std::int64_t i = 0; i < m; ++i)
            for (std::int64_t j = 0; j < n; ++j) {
              const auto at = static_cast<std::size_t>((b * m + i) * n + j);
              double sum = acc ? in[2][at] : 0;
              for (std::int64_t l = 0; l < k; ++l)
                sum +=
                    in[0][static_cast<std::size_t>(b * m * k + (t.first ? l * m + i : i * k + l))] *
                    in[1][static_cast<std::size_t>(b * k * n + (t.second ? j * k + l : l * n + j))];
              y[at] = sum;
            }
        return std::vector<Doubles>{y};
      }};
  if (acc) c.inputs.push_back({.shape = shape(m, n, false)});
  return c;
}

OpCases cases() {
  OpCases out{.op = "matmul", .cases = {}};
  for (Transposes t : {Transposes{false, false}, {true, false}, {false, true}, {true, true}}) {
    const std::string name = std::string(t.first ? "T" : "N") + (t.second ? "T" : "N");
    out.cases.push_back(product(name, 1, 9, 17, 13, t, false));
    out.cases.push_back(product(name + " plus acc", 1, 34, 40, 33, t, true));
    out.cases.push_back(product(name + " batch", 3, 5, 7, 11, t, true));
  }
  out.cases.push_back(product("one row", 1, 1, 64, 48, {false, true}, false));
  out.cases.push_back(product("no rows", 1, 0, 4, 3, {false, false}, false));
  out.cases.push_back(product("empty sums", 1, 3, 4, 0, {false, false}, false));
  return out;
}

const OpCases kCases = cases();

// Gradients of parameters: bf16 products summed into f32.
const OpCases kWide = {
    .op = "matmul",
    .dtypes = {DType::bf16},
    .cases = {
        {.name = "f32 result",
         .inputs = {{.shape = {20, 6}}, {.shape = {20, 9}}},
         .attrs = {{"transpose_a", std::int64_t{1}}, {"dtype", std::string("f32")}}},
        {.name = "f32 result plus acc",
         .inputs = {{.shape = {20, 6}}, {.shape = {20, 9}}, {.shape = {6, 9}, .dtype = DType::f32}},
         .attrs = {{"transpose_a", std::int64_t{1}}, {"dtype", std::string("f32")}}}}};

LAMINA_TEST_OP(Matmul, kCases)
LAMINA_TEST_OP(MatmulIntoF32, kWide)

}  // namespace
}  // namespace lamina::testing
