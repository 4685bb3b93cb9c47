// Products of few rows, of groups and of matrices that are stored in blocks, and attention of many
// rows, on the emulated GPU.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "backends/cuda/gemm/few_rows_host.h"
#include "backends/cuda/gemm/products.h"
#include "backends/cuda/stored/widen.h"
#include "core/float16.h"
#include "cuda/gpu_memory.h"
#include "formats/block_formats.h"
#include "ops/registry.h"
#include "support/expect_error.h"
#include "support/stored_blocks.h"

namespace lamina::testing {
namespace {

using cuda::FewRows;
using formats::BlockFormat;
using Bytes = std::vector<std::byte>;

constexpr std::array<DType, 2> kDtypes = {DType::f32, DType::bf16};

// The values by the format's definition, rounded once.
Array widened(const BlockFormat& format, const Bytes& blocks, const Type& type) {
  Array out = zeros(type);
  std::array<float, formats::kMaxBlockValues> values;
  for (std::int64_t i = 0; i < type.num_elements(); ++i) {
    const std::int64_t at = i % format.num_values;
    if (at == 0)
      format.widen(blocks.data() + i / format.num_values * format.num_bytes, values.data());
    set(out, i, static_cast<double>(values[static_cast<std::size_t>(at)]));
  }
  return out;
}

template <typename Check>
void for_all(const Check& check) {
  for (const BlockFormat& format : formats::block_formats())
    for (const DType dtype : kDtypes) {
      SCOPED_TRACE(::testing::Message() << format.name << " " << name(dtype));
      check(format, dtype);
    }
}

KernelArgs args_on_queue(std::byte* workspace = nullptr) {
  return {.inputs = {}, .outputs = {}, .workspace = workspace, .queue = &gpu_queue()};
}

TEST(WidenStoredOfTheGpu, HasTheBitsOfTheDefinition) {
  for_all([](const BlockFormat& format, DType dtype) {
    const Type type{dtype, {3 * format.num_values}, {}};
    // Values that are subnormal, and values that are infinite.
    for (const float scale : {0x1p-6f, 0x1p-22f, 0x1p-126f, 0x1p+13f, 0x1p+122f}) {
      if (std::abs(std::ilogb(scale)) > 22 && !has_wide_scale(format)) continue;
      Bytes blocks = random_blocks(format, type.num_elements(), 1, scale);
      remove_nans(format, blocks);
      const GpuMemory x(blocks), y(static_cast<std::size_t>(type.bytes()));
      cuda::Widener(gpu_context(), format, dtype)
          .run(args_on_queue(), x.pointer(), type.num_elements(), y.pointer());
      EXPECT_EQ(y.bytes(), widened(format, blocks, type).bytes) << "scale " << scale;
    }
  });
}

TEST(WidenStoredOfTheGpu, NoNumberStaysNone) {
  const BlockFormat& format = *formats::fp8_format(32);
  Bytes block = random_blocks(format, 32, 3, 1);
  block[4] = std::byte{0x7f}, block[5] = std::byte{0xff};
  const GpuMemory x(block), y(32 * sizeof(float));
  cuda::Widener(gpu_context(), format, DType::f32)
      .run(args_on_queue(), x.pointer(), 32, y.pointer());
  const Array got = y.array({DType::f32, {32}, {}});
  EXPECT_TRUE(std::isnan(get(got, 0)) && std::isnan(get(got, 1)) && !std::isnan(get(got, 2)));
}

// y[rows, n] of one matrix; w may be stored.
Bytes few_rows(const cuda::FewRowsSpec& spec, const Array& x, const Bytes& w,
               std::size_t shift = 0) {
  const FewRows product(gpu_context(), spec);
  const std::int64_t n = spec.matrices[0].n;
  const GpuMemory mx(x, shift), mw(w, shift),
      y(static_cast<std::size_t>(spec.num_rows * n * size_bytes(spec.out)), shift);
  const FewRows::Operands operands = {mw.pointer(), nullptr, y.pointer()};
  product.run(args_on_queue(), mx.pointer(), nullptr, {&operands, 1});
  return y.bytes();
}

cuda::FewRowsSpec few_rows_spec(DType dtype, std::int64_t rows, std::int64_t n, std::int64_t k) {
  return {.num_rows = rows, .k = k, .in = dtype, .out = dtype, .matrices = {{n, {}}}};
}

// The rows [first, first + count) of a matrix.
Array rows_of(const Array& x, std::int64_t first, std::int64_t count) {
  const std::int64_t row_bytes = x.type.dim(1) * size_bytes(x.type.dtype);
  return {
      {x.type.dtype, {count, x.type.dim(1)}, {}},
      Bytes(x.bytes.begin() + first * row_bytes, x.bytes.begin() + (first + count) * row_bytes)};
}

TEST(FewRows, ARowHasTheSameBitsAloneAndAmongOthers) {
  for (const DType dtype : kDtypes) {
    const std::int64_t n = 21, k = 1300;
    const Array x = random_values({dtype, {8, k}, {}}, 1),
                w = random_values({dtype, {n, k}, {}}, 2);
    const Bytes all = few_rows(few_rows_spec(dtype, 8, n, k), x, w.bytes);
    for (const std::int64_t count : {1, 2, 3, 5})
      for (std::int64_t first = 0; first + count <= 8; ++first) {
        const Bytes some =
            few_rows(few_rows_spec(dtype, count, n, k), rows_of(x, first, count), w.bytes);
        EXPECT_EQ(some, rows_of({{dtype, {8, n}, {}}, all}, first, count).bytes)
            << count << " rows from " << first;
      }
  }
}

// The kernels for large matrices compute several outputs per warp.
TEST(FewRows, LargeMatricesHaveTheBitsOfSmallOnes) {
  const std::int64_t k = 40;
  const Array x = random_values({DType::bf16, {1, k}, {}}, 1);
  for (const std::int64_t n : {4224, 8448}) {
    const Array w = random_values({DType::bf16, {n, k}, {}}, 2);
    const Bytes large = few_rows(few_rows_spec(DType::bf16, 1, n, k), x, w.bytes);
    Bytes small;
    for (std::int64_t first = 0; first < n; first += 528) {
      const Bytes part =
          few_rows(few_rows_spec(DType::bf16, 1, 528, k), x, rows_of(w, first, 528).bytes);
      small.insert(small.end(), part.begin(), part.end());
    }
    EXPECT_EQ(large, small) << n << " outputs";
  }
}

TEST(FewRows, OperandsThatAreNotAlignedGiveTheSameBits) {
  for (const DType dtype : kDtypes) {
    const Array x = random_values({dtype, {3, 296}, {}}, 1),
                w = random_values({dtype, {9, 296}, {}}, 2);
    EXPECT_EQ(few_rows(few_rows_spec(dtype, 3, 9, 296), x, w.bytes, 4),
              few_rows(few_rows_spec(dtype, 3, 9, 296), x, w.bytes));
  }
}

TEST(FewRows, StoredWeightsHaveTheBitsOfWidenedOnes) {
  for_all([](const BlockFormat& format, DType dtype) {
    const std::int64_t n = 13, k = 512;
    Bytes blocks = random_blocks(format, n * k, 4, 0x1p-6f);
    remove_nans(format, blocks);
    const Array w = widened(format, blocks, {dtype, {n, k}, {}});
    for (const std::int64_t rows : {1, 2, 4, 7}) {
      const Array x = random_values({dtype, {rows, k}, {}}, 5);
      cuda::FewRowsSpec spec = few_rows_spec(dtype, rows, n, k);
      const Bytes want = few_rows(spec, x, w.bytes);
      spec.stored = &format;
      EXPECT_EQ(few_rows(spec, x, blocks), want) << rows << " rows";
    }
  });
}

Bytes large_product(const cuda::blas::ProductSpec& spec, const BlockFormat* stored, const Array& x,
                    const Bytes& w) {
  const cuda::LargeProduct product(gpu_context(), spec, stored);
  const GpuMemory mx(x), mw(w), workspace(product.workspace_bytes()),
      y(static_cast<std::size_t>(spec.m * spec.n * size_bytes(spec.out)));
  product.run(args_on_queue(static_cast<std::byte*>(workspace.pointer())), mx.pointer(),
              mw.pointer(), nullptr, nullptr, y.pointer());
  return y.bytes();
}

TEST(LargeProduct, StoredWeightsHaveTheBitsOfWidenedOnes) {
  for_all([](const BlockFormat& format, DType dtype) {
    const std::int64_t m = 11, n = 20, k = 256;
    Bytes blocks = random_blocks(format, n * k, 4, 0x1p-6f);
    remove_nans(format, blocks);
    const Array w = widened(format, blocks, {dtype, {n, k}, {}});
    const Array x = random_values({dtype, {m, k}, {}}, 5);
    const cuda::blas::ProductSpec spec{.m = m, .n = n, .k = k, .in = dtype, .out = dtype};
    EXPECT_EQ(large_product(spec, &format, x, blocks), large_product(spec, nullptr, x, w.bytes));
  });
}

// 130 rows of 65536 values are two panels, the last one smaller.
TEST(LargeProduct, WidensPanelAfterPanel) {
  const BlockFormat& format = *formats::find_block_format(8);
  const std::int64_t m = 2, n = 130, k = 65536;
  const Bytes blocks = random_blocks(format, n * k, 4, 0x1p-6f);
  const Array w = widened(format, blocks, {DType::f32, {n, k}, {}});
  const Array x = random_values({DType::f32, {m, k}, {}}, 5);
  const cuda::blas::ProductSpec spec{.m = m, .n = n, .k = k, .in = DType::f32, .out = DType::f32};
  EXPECT_EQ(large_product(spec, &format, x, blocks), large_product(spec, nullptr, x, w.bytes));
}

// The gradient to the input of a linear: blocks are along n.
TEST(LargeProduct, StoredColumnsHaveTheBitsOfWidenedOnes) {
  for_all([](const BlockFormat& format, DType dtype) {
    const std::int64_t m = 11, n = 256, k = 20;
    Bytes blocks = random_blocks(format, n * k, 4, 0x1p-6f);
    remove_nans(format, blocks);
    const Array w = widened(format, blocks, {dtype, {k, n}, {}});
    const Array x = random_values({dtype, {m, k}, {}}, 5);
    const cuda::blas::ProductSpec spec{
        .m = m, .n = n, .k = k, .in = dtype, .out = dtype, .b_transposed = false};
    EXPECT_EQ(large_product(spec, &format, x, blocks), large_product(spec, nullptr, x, w.bytes));
  });
}

// The results of an op by one of its kernels. `shift`: the distance of inputs from a multiple of 16
// bytes.
std::vector<Array> run_kernel(std::string_view op, std::string_view choice_name,
                              const std::vector<Array>& inputs, std::size_t shift = 0) {
  Graph g;
  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    operands.push_back(g.add_input(fmt::format("in{}", i), inputs[i].type));
  g.add_node(ops::get(op), operands, {});
  std::vector<Array> results;
  with_node_view(g, g.nodes().back(), [&](const NodeView& view) {
    for (const KernelChoice& choice : test_gpu().kernels(view.op())) {
      if (choice.name != choice_name) continue;
      EXPECT_TRUE(choice.supports(view)) << choice.supports(view).why_not;
      const std::unique_ptr<Kernel> kernel = choice.make(view, gpu_context());
      std::vector<GpuMemory> memory;
      std::vector<const void*> in(static_cast<std::size_t>(view.num_inputs()));
      std::vector<void*> out;
      for (std::size_t i = 0; i < inputs.size(); ++i)
        in[i] = memory.emplace_back(inputs[i], shift).pointer();
      for (int i = 0; i < view.num_outputs(); ++i)
        out.push_back(
            memory.emplace_back(static_cast<std::size_t>(view.out_type(i).bytes())).pointer());
      const GpuMemory workspace(kernel->workspace_bytes());
      gpu_queue().enqueue(*kernel, {in, out, static_cast<std::byte*>(workspace.pointer())});
      for (int i = 0; i < view.num_outputs(); ++i)
        results.push_back(
            memory[inputs.size() + static_cast<std::size_t>(i)].array(view.out_type(i)));
    }
  });
  return results;
}

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
    expect_near(run_kernel("grouped_linear", "tensor cores", {c.x, c.w, ints(c.offsets)})[0], want);
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
    expect_near(run_kernel("grouped_linear_dx", "tensor cores", {c.dy, c.w, ints(c.offsets)})[0],
                want);
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
        run_kernel("grouped_linear_dw", "tensor cores", {c.x, c.dy, ints(c.offsets)});
    expect_near(got[0], dw);
    expect_near(got[1], dbias);
  }
}

// The rows of the first group of `rows` rows, by tiles of 128 rows if that is many.
Bytes first_rows(const Array& x, const Array& w, std::int64_t rows, std::int64_t count) {
  const Array part = rows_of(x, 0, rows);
  const Array y = run_kernel("grouped_linear", "tensor cores",
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
  const Array all = run_kernel("grouped_linear", "tensor cores", {x, w, offsets})[0],
              few = run_kernel("grouped_linear", "tensor cores", {x, some, offsets})[0];
  for (std::int64_t r = 0; r < 30; ++r)
    for (std::int64_t o = 0; o < 40; ++o)
      ASSERT_EQ(get(all, r * 200 + o), get(few, r * 40 + o)) << "row " << r << ", output " << o;
}

Bytes grouped(std::string_view choice, const Type& w_type, const Array& x, const Bytes& w,
              const std::vector<std::int32_t>& offsets) {
  return run_kernel("grouped_linear", choice, {x, {w_type, w}, ints(offsets)})[0].bytes;
}

TEST(GroupedLinearOfTheGpu, StoredMatricesHaveTheBitsOfWidenedOnes) {
  const std::int64_t groups = 3, outputs = 20, inputs = 256;
  const std::vector<std::int32_t> offsets = {1, 4, 4, 15};
  for_all([&](const BlockFormat& format, DType dtype) {
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
  for_all([&](const BlockFormat& format, DType dtype) {
    const Type plain{dtype, {groups, outputs, inputs}, {}};
    Bytes blocks = random_blocks(format, plain.num_elements(), 7, 0x1p-6f);
    remove_nans(format, blocks);
    const Array dy = random_values({dtype, {16, outputs}, {}}, 8),
                w = widened(format, blocks, plain);
    const char* choice = dtype == DType::bf16 ? "tensor cores" : "tiles";
    const Array stored{plain.stored_as(&format), blocks};
    EXPECT_EQ(run_kernel("grouped_linear_dx", choice, {dy, stored, offsets})[0].bytes,
              run_kernel("grouped_linear_dx", choice, {dy, w, offsets})[0].bytes);
  });
}

TEST(AttentionOfManyRows, OperandsThatAreNotAlignedGiveTheSameBits) {
  for (const std::int64_t width : {64, 128}) {
    std::vector<Array> inputs;
    for (const unsigned seed : {1, 2, 3})
      inputs.push_back(random_values({DType::bf16, {1, 150, 1, width}, {}}, seed));
    const std::vector<Array> aligned = run_kernel("attention", "tiles", inputs),
                             shifted = run_kernel("attention", "tiles", inputs, 4);
    EXPECT_EQ(shifted[0].bytes, aligned[0].bytes) << "width " << width;
    EXPECT_EQ(shifted[1].bytes, aligned[1].bytes) << "width " << width;
  }
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

// Rows of a table by id, by the first kernel that takes the table.
Bytes looked_up(const Type& table, const Bytes& values, const std::vector<std::int32_t>& ids) {
  Graph g;
  const Type ids_type{DType::i32, {static_cast<std::int64_t>(ids.size())}, {}};
  g.add_node(ops::get("embedding"),
             std::vector<Tensor>{g.add_input("table", table), g.add_input("ids", ids_type)}, {});
  Bytes out;
  with_node_view(g, g.nodes().back(), [&](const NodeView& view) {
    const auto choices = test_gpu().kernels(view.op());
    const auto choice = std::ranges::find_if(
        choices, [&](const KernelChoice& c) { return static_cast<bool>(c.supports(view)); });
    ASSERT_NE(choice, choices.end());
    const std::unique_ptr<Kernel> kernel = choice->make(view, gpu_context());
    const GpuMemory rows(values), list(ids), y(static_cast<std::size_t>(view.out_type().bytes()));
    const void* inputs[] = {rows.pointer(), list.pointer()};
    void* outputs[] = {y.pointer()};
    gpu_queue().enqueue(*kernel, {inputs, outputs});
    out = y.bytes();
  });
  return out;
}

TEST(EmbeddingOfTheGpu, RowsOfStoredTablesHaveTheBitsOfWidenedOnes) {
  for_all([&](const BlockFormat& format, DType dtype) {
    const Type plain{dtype, {5, 512}, {}};
    Bytes blocks = random_blocks(format, plain.num_elements(), 9, 0x1p-6f);
    remove_nans(format, blocks);
    const std::vector<std::int32_t> ids = {3, 0, -1, 4, 5, 3};
    EXPECT_EQ(looked_up(plain.stored_as(&format), blocks, ids),
              looked_up(plain, widened(format, blocks, plain).bytes, ids));
  });
}

}  // namespace
}  // namespace lamina::testing
