// Products of groups of rows, on the emulated GPU.
#include <array>
#include <cmath>

#include "core/float16.h"
#include "cuda/run_op.h"
#include "cuda/stored_values.h"

namespace lamina::testing {
namespace {

using formats::BlockFormat;

Array ints(const std::vector<std::int32_t>& values) {
  Array out = zeros({DType::i32, {static_cast<std::int64_t>(values.size())}, {}});
  for (std::size_t i = 0; i < values.size(); ++i) set(out, static_cast<std::int64_t>(i), values[i]);
  return out;
}

// A sum of products, with a bound of its error in f32: each of its roundings, which a tensor core
// may do by truncation, is at most 2^-23 of the sum of magnitudes.
struct Sum {
  double value = 0, magnitude = 0, terms = 0;

  void add(double x) { value += x, magnitude += std::abs(x), ++terms; }
  // The error of a result that is rounded to `dtype` at the end.
  double error(DType dtype) const {
    const double before = terms * 0x1p-23 * magnitude;
    const double unit = dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0x1p-24;
    const double smallest = dtype == DType::f16 ? 0x1p-25 : 0;  // half the distance of subnormals
    return before + unit * (std::abs(value) + before) + smallest;
  }
};

void expect_near(const Array& got, const std::vector<Sum>& want) {
  ASSERT_EQ(got.type.num_elements(), static_cast<std::int64_t>(want.size()));
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(get(got, static_cast<std::int64_t>(i)), want[i].value,
                want[i].error(got.type.dtype))
        << "element " << i;
}

std::size_t as_index(std::int64_t i) { return static_cast<std::size_t>(i); }

// Groups of rows for tiles of 128 rows that vectors can read: the op cases have none. Inputs,
// outputs and a group have more than three times 64 values, so places in shared memory are used
// again (gemm/warpgroup_tile.h).
struct LargeGroups {
  static constexpr std::int64_t rows = 300, groups = 3, inputs = 328, outputs = 200;
  explicit LargeGroups(DType dtype)
      : x(random_values({dtype, {rows, inputs}, {}}, 1)),
        dy(random_values({dtype, {rows, outputs}, {}}, 2)),
        w(random_values({dtype, {groups, outputs, inputs}, {}}, 3)) {}

  std::vector<std::int32_t> offsets = {1, 221, 221, 298};
  Array x, dy, w;

  // Calls fn(group, row) for the rows of all groups.
  template <typename Fn>
  void for_each_row(Fn fn) const {
    for (std::int64_t g = 0; g < groups; ++g)
      for (std::int64_t r = offsets[static_cast<std::size_t>(g)];
           r < offsets[static_cast<std::size_t>(g) + 1]; ++r)
        fn(g, r);
  }
};

constexpr std::array<DType, 2> k16BitTypes = {DType::bf16, DType::f16};

TEST(GroupedLinearOfTheGpu, MultipliesLargeGroupsByTensorCores) {
  for (const DType dtype : k16BitTypes) {
    const LargeGroups c(dtype);
    std::vector<Sum> want(c.rows * c.outputs);
    const std::vector<double> x = to_doubles(c.x), w = to_doubles(c.w);
    c.for_each_row([&](std::int64_t g, std::int64_t r) {
      for (std::int64_t o = 0; o < c.outputs; ++o)
        for (std::int64_t i = 0; i < c.inputs; ++i)
          want[as_index(r * c.outputs + o)].add(x[as_index(r * c.inputs + i)] *
                                                w[as_index((g * c.outputs + o) * c.inputs + i)]);
    });
    expect_near(run_op("grouped_linear", "tensor cores", {c.x, c.w, ints(c.offsets)})[0], want);
  }
}

TEST(GroupedLinearDxOfTheGpu, MultipliesLargeGroupsByTensorCores) {
  for (const DType dtype : k16BitTypes) {
    const LargeGroups c(dtype);
    std::vector<Sum> want(c.rows * c.inputs);
    const std::vector<double> dy = to_doubles(c.dy), w = to_doubles(c.w);
    c.for_each_row([&](std::int64_t g, std::int64_t r) {
      for (std::int64_t o = 0; o < c.outputs; ++o)
        for (std::int64_t i = 0; i < c.inputs; ++i)
          want[as_index(r * c.inputs + i)].add(dy[as_index(r * c.outputs + o)] *
                                               w[as_index((g * c.outputs + o) * c.inputs + i)]);
    });
    expect_near(run_op("grouped_linear_dx", "tensor cores", {c.dy, c.w, ints(c.offsets)})[0], want);
  }
}

TEST(GroupedLinearDwOfTheGpu, MultipliesLargeGroupsByTensorCores) {
  for (const DType dtype : k16BitTypes) {
    const LargeGroups c(dtype);
    std::vector<Sum> dw(c.groups * c.outputs * c.inputs), dbias(c.groups * c.outputs);
    const std::vector<double> x = to_doubles(c.x), dy = to_doubles(c.dy);
    c.for_each_row([&](std::int64_t g, std::int64_t r) {
      for (std::int64_t o = 0; o < c.outputs; ++o) {
        const double of_row = dy[as_index(r * c.outputs + o)];
        dbias[as_index(g * c.outputs + o)].add(of_row);
        for (std::int64_t i = 0; i < c.inputs; ++i)
          dw[as_index((g * c.outputs + o) * c.inputs + i)].add(of_row *
                                                               x[as_index(r * c.inputs + i)]);
      }
    });
    const std::vector<Array> got =
        run_op("grouped_linear_dw", "tensor cores", {c.x, c.dy, ints(c.offsets)});
    expect_near(got[0], dw);
    expect_near(got[1], dbias);
  }
}

// The rows of the first group of `rows` rows, by tiles of 128 rows if that is many.
Bytes first_rows(const Array& x, const Array& w, std::int64_t rows, std::int64_t count) {
  const Array part = rows_of(x, 0, rows);
  const Array y = run_op("grouped_linear", "tensor cores",
                         {part, w, ints({0, static_cast<std::int32_t>(rows)})})[0];
  return rows_of(y, 0, count).bytes;
}

TEST(GroupedLinearOfTheGpu, ARowHasTheSameBitsAmongFewAndManyRows) {
  const std::int64_t outputs = 136, inputs = 200;
  const Array x = random_values({DType::bf16, {150, inputs}, {}}, 1),
              w = random_values({DType::bf16, {1, outputs, inputs}, {}}, 2);
  const Bytes few = first_rows(x, w, 20, 20);
  EXPECT_EQ(first_rows(x, w, 70, 20), few);
  EXPECT_EQ(first_rows(x, w, 150, 20), few);
}

// Columns of a matrix alone, and as a part of a larger one.
TEST(GroupedLinearOfTheGpu, AnOutputHasTheSameBitsAmongFewAndMany) {
  const std::int64_t inputs = 72;
  const Array x = random_values({DType::bf16, {30, inputs}, {}}, 1),
              w = random_values({DType::bf16, {1, 200, inputs}, {}}, 2);
  const Array some{{DType::bf16, {1, 40, inputs}, {}},
                   Bytes(w.bytes.begin(), w.bytes.begin() + 40 * inputs * 2)};
  const Array offsets = ints({0, 30});
  const Array all = run_op("grouped_linear", "tensor cores", {x, w, offsets})[0],
              few = run_op("grouped_linear", "tensor cores", {x, some, offsets})[0];
  for (std::int64_t r = 0; r < 30; ++r)
    for (std::int64_t o = 0; o < 40; ++o)
      ASSERT_EQ(get(all, r * 200 + o), get(few, r * 40 + o)) << "row " << r << ", output " << o;
}

Bytes grouped(std::string_view choice, const Type& w_type, const Array& x, const Bytes& w,
              const std::vector<std::int32_t>& offsets) {
  return run_op("grouped_linear", choice, {x, {w_type, w}, ints(offsets)})[0].bytes;
}

TEST(GroupedLinearOfTheGpu, StoredMatricesHaveTheBitsOfWidenedOnes) {
  const std::int64_t groups = 3, outputs = 20, inputs = 256;
  const std::vector<std::int32_t> offsets = {1, 4, 4, 15};
  for_all_formats([&](const BlockFormat& format, DType dtype) {
    const Type plain{dtype, {groups, outputs, inputs}, {}};
    Bytes blocks = random_blocks(format, plain.num_elements(), 7, 0x1p-6f);
    remove_nans(format, blocks);
    const Array x = random_values({dtype, {16, inputs}, {}}, 8), w = widened(format, blocks, plain);
    EXPECT_EQ(grouped("few rows", plain.stored_as(&format), x, blocks, offsets),
              grouped("few rows", plain, x, w.bytes, offsets));
    if (dtype == DType::bf16) {
      EXPECT_EQ(grouped("tensor cores", plain.stored_as(&format), x, blocks, offsets),
                grouped("tensor cores", plain, x, w.bytes, offsets));
    }
  });
}

TEST(GroupedLinearDxOfTheGpu, StoredMatricesHaveTheBitsOfWidenedOnes) {
  const std::int64_t groups = 3, outputs = 20, inputs = 256;
  const Array offsets = ints({1, 4, 4, 15});
  for_all_formats([&](const BlockFormat& format, DType dtype) {
    const Type plain{dtype, {groups, outputs, inputs}, {}};
    Bytes blocks = random_blocks(format, plain.num_elements(), 7, 0x1p-6f);
    remove_nans(format, blocks);
    const Array dy = random_values({dtype, {16, outputs}, {}}, 8),
                w = widened(format, blocks, plain);
    const char* choice = dtype == DType::bf16 ? "tensor cores" : "tiles";
    const Array stored{plain.stored_as(&format), blocks};
    EXPECT_EQ(run_op("grouped_linear_dx", choice, {dy, stored, offsets})[0].bytes,
              run_op("grouped_linear_dx", choice, {dy, w, offsets})[0].bytes);
  });
}

// More groups than a warp has lanes, many without rows.
TEST(GroupedLinearOfTheGpu, FindsTheRowsOfManyGroups) {
  const std::int64_t groups = 70, outputs = 9, inputs = 16;
  std::vector<std::int32_t> offsets = {2};
  for (int g = 0; g < groups; ++g)
    offsets.push_back(offsets.back() + (g % 7 == 3 ? 5 + g % 11 : g % 5 == 0));
  const std::int64_t rows = offsets.back() + 3;
  const Type w_type{DType::f32, {groups, outputs, inputs}, {}};
  const Array x = random_values({DType::f32, {rows, inputs}, {}}, 1), w = random_values(w_type, 2);
  const Array few{{DType::f32, {rows, outputs}, {}},
                  grouped("few rows", w_type, x, w.bytes, offsets)};
  const Array tiles{few.type, grouped("tiles", w_type, x, w.bytes, offsets)};
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t o = 0; o < outputs; ++o) {
      double sum = 0;
      for (std::int64_t g = 0; g < groups; ++g)
        if (r >= offsets[static_cast<std::size_t>(g)] &&
            r < offsets[static_cast<std::size_t>(g) + 1])
          for (std::int64_t i = 0; i < inputs; ++i)
            sum += get(x, r * inputs + i) * get(w, (g * outputs + o) * inputs + i);
      ASSERT_NEAR(get(few, r * outputs + o), sum, 1e-5) << "row " << r;
      ASSERT_NEAR(get(tiles, r * outputs + o), sum, 1e-5) << "row " << r;
    }
}

}  // namespace
}  // namespace lamina::testing
