// Cases of adamw.
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

// Learning rate, gradient scale, corrections, and 0 if nothing may change.
In scalars(bool may_change) {
  return {.shape = {5},
          .dtype = DType::f32,
          .values = {1e-2, 0.5, 0.19, 0.0199, may_change ? 1.0 : 0.0}};
}

OpCase step(std::string name, Shape shape, bool copy, bool may_change = true) {
  In tensor{.shape = shape, .dtype = DType::f32};
  In positive = tensor;
  positive.low = 0;
  return {.name = std::move(name),
          .inputs = {tensor, tensor, tensor, positive, scalars(may_change)},
          .attrs = {{"beta1", 0.9},
                    {"beta2", 0.99},
                    {"eps", 1e-6},
                    {"weight_decay", 0.1},
                    {"copy", std::int64_t{copy}}}};
}

const OpCases kCases = {
    .op = "adamw",
    .dtypes = {DType::f32},
    .cases = {step("a matrix", {5, 33}, false), step("and a copy in bf16", {130}, true),
              step("a number", {}, false), step("nothing", {0}, true),
              step("without a change", {5, 33}, true, false), step("vectors", {6, 64}, true),
              step("vectors without a change", {8}, true, false)}};

// A list of `slots` ids of a table of `rows`; the last slots are unused.
OpCase row_step(std::string name, std::int64_t rows, std::vector<double> ids, std::int64_t width,
                bool copy, bool lazy, bool may_change = true) {
  const auto slots = static_cast<std::int64_t>(ids.size());
  In table{.shape = {rows, width}, .dtype = DType::f32};
  In positive = table;
  positive.low = 0;
  OpCase c{.name = std::move(name),
           .inputs = {table,
                      ints({slots}, std::move(ids)),
                      {.shape = {slots, width}, .dtype = DType::f32},
                      table,
                      positive,
                      scalars(may_change),
                      copy ? In{.shape = {rows, width}, .dtype = DType::bf16} : kAbsent},
           .attrs = {{"beta1", 0.9},
                     {"beta2", 0.99},
                     {"eps", 1e-6},
                     {"weight_decay", 0.1},
                     {"lazy", std::int64_t{lazy}}}};
  return c;
}

const OpCases kRowCases = {
    .op = "adamw_rows",
    .dtypes = {DType::f32},
    .cases = {row_step("rows of a matrix", 9, {0, 3, 4, 8, 9, 9}, 33, false, false),
              row_step("and a copy in bf16", 7, {1, 5}, 17, true, false),
              row_step("no row", 7, {7, 7}, 5, true, false),
              row_step("no slot", 7, {}, 5, false, false),
              row_step("every row", 3, {0, 1, 2}, 16, false, false),
              row_step("many rows", 400, {0, 17, 18, 300, 399}, 130, true, false),
              row_step("lazy", 9, {0, 3, 4, 8, 9, 9}, 33, false, true),
              row_step("lazy, and a copy in bf16", 400, {2, 17, 18, 300, 400}, 65, true, true),
              row_step("without a change", 9, {0, 3, 4, 8, 9, 9}, 33, false, false, false),
              row_step("without a change, and a copy in bf16", 7, {1, 5}, 17, true, true, false),
              row_step("lazy without a row", 7, {7, 7}, 5, true, true),
              row_step("an empty table", 0, {}, 5, true, true),
              row_step("rows of vectors", 9, {0, 3, 4, 8, 9, 9}, 36, true, false),
              row_step("lazy rows of vectors", 9, {0, 3, 4, 8, 9, 9}, 36, true, true)}};

LAMINA_TEST_OP(Adamw, kCases)
LAMINA_TEST_OP(AdamwRows, kRowCases)

}  // namespace
}  // namespace lamina::testing
