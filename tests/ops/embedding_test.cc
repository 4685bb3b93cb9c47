// Cases of embedding and its gradient.
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

std::size_t at(double i) { return static_cast<std::size_t>(i); }

// Rows of width `width` by id; an id outside the table gives zeros.
auto rows_of(std::size_t vocabulary, std::size_t width) {
  return [=](const std::vector<Doubles>& in) {
    Doubles y;
    for (double id : in[1])
      for (std::size_t i = 0; i < width; ++i)
        y.push_back(id < 0 || at(id) >= vocabulary ? 0 : in[0][at(id) * width + i]);
    return std::vector<Doubles>{y};
  };
}

auto sums_of(std::size_t vocabulary, std::size_t width, bool acc) {
  return [=](const std::vector<Doubles>& in) {
    Doubles y = acc ? in[2] : Doubles(vocabulary * width);
    for (std::size_t t = 0; t < in[0].size(); ++t)
      for (std::size_t i = 0; i < width && in[0][t] >= 0 && at(in[0][t]) < vocabulary; ++i)
        y[at(in[0][t]) * width + i] += in[1][t * width + i];
    return std::vector<Doubles>{y};
  };
}

const OpCases kCases = {
    .op = "embedding",
    .cases = {
        {.name = "two rows",
         .inputs = {{.shape = {11, 17}}, ints({2, 5}, 0, 10)},
         .expect = rows_of(11, 17)},
        {.name = "rows of whole vectors",
         .inputs = {{.shape = {11, 32}}, ints({7}, -1, 11)},
         .expect = rows_of(11, 32)},
        {.name = "ids outside of the table",
         .inputs = {{.shape = {3, 4}}, ints({4}, {-1, 2, 3, 0})},
         .expect = rows_of(3, 4)},
        {.name = "no ids", .inputs = {{.shape = {3, 4}}, ints({0}, 0, 1)}, .expect = rows_of(3, 4)},
        {.name = "one id", .inputs = {{.shape = {3, 4}}, ints({}, {1})}, .expect = rows_of(3, 4)},
    }};

// `count` ids, half of them `often`.
Doubles many_ids(std::size_t count, double often) {
  Doubles ids;
  for (std::size_t i = 0; i < count; ++i)
    ids.push_back(i % 2 == 0 ? often : static_cast<double>(i * i % 1999));
  return ids;
}

const OpCases kGrad = {.op = "embedding_grad",
                       .cases = {
                           {.name = "ids that repeat",
                            .inputs = {ints({3, 20}, 0, 6), {.shape = {3, 20, 70}}},
                            .attrs = {{"rows", std::int64_t{9}}},
                            .expect = sums_of(9, 70, false)},
                           {.name = "many ids, one of them often",
                            .inputs = {ints({5000}, many_ids(5000, 7)), {.shape = {5000, 8}}},
                            .attrs = {{"rows", std::int64_t{2000}}},
                            .expect = sums_of(2000, 8, false)},
                           {.name = "ids outside of the table",
                            .inputs = {ints({4}, {-1, 2, 3, 2}), {.shape = {4, 5}}},
                            .attrs = {{"rows", std::int64_t{3}}},
                            .expect = sums_of(3, 5, false)},
                           {.name = "no ids",
                            .inputs = {ints({0}, 0, 1), {.shape = {0, 5}}},
                            .attrs = {{"rows", std::int64_t{3}}},
                            .expect = sums_of(3, 5, false)},
                       }};

const OpCases kGradAdded = {.op = "embedding_grad",
                            .dtypes = {DType::f32, DType::bf16},
                            .cases = {{.name = "plus acc",
                                       .inputs = {ints({2, 20}, 0, 6),
                                                  {.shape = {2, 20, 33}},
                                                  {.shape = {7, 33}, .dtype = DType::f32}},
                                       .attrs = {{"rows", std::int64_t{7}}},
                                       .expect = sums_of(7, 33, true)}}};

LAMINA_TEST_OP(Embedding, kCases)
LAMINA_TEST_OP(EmbeddingGrad, kGrad)
LAMINA_TEST_OP(EmbeddingGradPlusAcc, kGradAdded)

}  // namespace
}  // namespace lamina::testing
