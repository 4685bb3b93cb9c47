// Cases of sum_rows and add_rows: gradients of tables as lists of rows.
#include <map>

#include "support/op_cases.h"

namespace lamina::testing {
namespace {

using Rows = std::map<std::int64_t, Doubles>;  // by id

// ids and rows of `slots` slots, as the ops lay them out.
std::vector<Doubles> listed(const Rows& rows, std::size_t slots, std::int64_t table_rows,
                            std::size_t width) {
  Doubles ids, values;
  for (const auto& [id, row] : rows) {
    ids.push_back(static_cast<double>(id));
    values.insert(values.end(), row.begin(), row.end());
  }
  ids.resize(slots, static_cast<double>(table_rows));
  values.resize(slots * width);
  return {ids, values};
}

void add_to(Rows& rows, const Doubles& ids, const Doubles& values, std::int64_t table_rows,
            std::size_t width) {
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const auto id = static_cast<std::int64_t>(ids[t]);
    if (id < 0 || id >= table_rows) continue;
    Doubles& row = rows[id];
    row.resize(width);
    for (std::size_t i = 0; i < width; ++i) row[i] += values[t * width + i];
  }
}

OpCase sums(std::string name, In ids, std::int64_t width, std::int64_t table_rows) {
  In dy{.shape = {}};
  std::vector<std::int64_t> dims;
  for (int i = 0; i < ids.shape.ndim(); ++i) dims.push_back(ids.shape[i]);
  dims.push_back(width);
  dy.shape = Shape{std::span(std::as_const(dims))};
  const auto slots = static_cast<std::size_t>(std::min(table_rows, ids.shape.num_elements()));
  return {.name = std::move(name),
          .inputs = {std::move(ids), dy},
          .attrs = {{"rows", table_rows}},
          .expect = [=](const std::vector<Doubles>& in) {
            Rows rows;
            add_to(rows, in[0], in[1], table_rows, static_cast<std::size_t>(width));
            return listed(rows, slots, table_rows, static_cast<std::size_t>(width));
          }};
}

const OpCases kSums = {
    .op = "sum_rows",
    .cases = {sums("ids that repeat", ints({3, 20}, 0, 6), 70, 900),
              sums("more ids than rows", ints({3, 20}, 0, 6), 17, 9),
              sums("large ids", ints({5}, {70000, 3, 200000000, 70000, 256}), 8, 1 << 28),
              sums("many ids", ints({5000}, 0, 1900), 4, 2000),
              sums("ids outside of the table", ints({4}, {-1, 2, 3, 2}), 5, 3),
              sums("one id", ints({}, {1}), 33, 3), sums("no ids", ints({0}, 0, 1), 5, 3),
              sums("no rows", ints({4}, 0, 1), 5, 0), sums("no columns", ints({4}, 0, 1), 0, 3)}};

Doubles multiples(std::int64_t of, std::int64_t below) {
  Doubles out;
  for (std::int64_t i = 0; i < below; i += of) out.push_back(static_cast<double>(i));
  return out;
}

OpCase merged(std::string name, std::vector<double> ids, std::vector<double> more_ids,
              std::int64_t width, std::int64_t table_rows) {
  const auto slots = static_cast<std::int64_t>(ids.size());
  const auto more_slots = static_cast<std::int64_t>(more_ids.size());
  const In rows{.shape = {slots, width}, .dtype = DType::f32},
      more{.shape = {more_slots, width}, .dtype = DType::f32};
  return {.name = std::move(name),
          .inputs = {ints({slots}, std::move(ids)), rows, ints({more_slots}, std::move(more_ids)),
                     more},
          .attrs = {{"rows", table_rows}},
          .expect = [=](const std::vector<Doubles>& in) {
            Rows all;
            add_to(all, in[0], in[1], table_rows, static_cast<std::size_t>(width));
            add_to(all, in[2], in[3], table_rows, static_cast<std::size_t>(width));
            return listed(all, static_cast<std::size_t>(slots), table_rows,
                          static_cast<std::size_t>(width));
          }};
}

// Lists of many rows; the first one's unused slots take all that are new.
OpCase merged_many() {
  constexpr std::int64_t kRows = 9000;
  Doubles ids = multiples(3, kRows);
  ids.resize(ids.size() + kRows / 3, static_cast<double>(kRows));
  return merged("many rows", std::move(ids), multiples(2, kRows), 3, kRows);
}

// Unused slots must hold zeros, but the harness fills them at random. So the cases have none, or
// the other list takes them.
const OpCases kMerged = {
    .op = "add_rows",
    .dtypes = {DType::f32},
    .cases = {merged("ids of both", {1, 4, 6, 8}, {4, 6}, 33, 9),
              merged("before, between and behind", {2, 5, 9, 9, 9}, {0, 3, 8}, 200, 9),
              merged("both, and others", {2, 5, 9, 9}, {0, 2, 8, 9, 9}, 7, 9),
              merged("nothing to add", {1, 2}, {9, 9}, 5, 9), merged("no slot", {1}, {}, 5, 9),
              merged("all of them", {7, 7, 7}, {1, 2, 3}, 66, 7), merged_many()}};

LAMINA_TEST_OP(SumRows, kSums)
LAMINA_TEST_OP(AddRows, kMerged)

}  // namespace
}  // namespace lamina::testing
