// Products of few and many rows, and of weights that are stored in blocks, on the emulated GPU.
#include <array>
#include <chrono>

#include "backends/cuda/gemm/few_rows_host.h"
#include "backends/cuda/gemm/products.h"
#include "cuda/gpu_memory.h"
#include "cuda/run_op.h"
#include "cuda/stored_values.h"
#include "support/expect_error.h"

namespace lamina::testing {
namespace {

using cuda::FewRows;
using formats::BlockFormat;

constexpr std::array<DType, 2> kDtypes = {DType::f32, DType::bf16};

KernelArgs args_on_queue(std::byte* workspace = nullptr) {
  return {.inputs = {}, .outputs = {}, .workspace = workspace, .queue = &gpu_queue()};
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
  for_all_formats([](const BlockFormat& format, DType dtype) {
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

// A grid has at most 65,535 tiles of 8 rows. The products are over nothing, which leaves the bias.
TEST(FewRows, RowsBeyondOneGridAreComputed) {
  const std::int64_t rows = 65'536 * 8 + 1;
  const FewRows product(gpu_context(), {.num_rows = rows,
                                        .k = 0,
                                        .in = DType::f32,
                                        .out = DType::f32,
                                        .matrices = {{1, DType::f32}}});
  const GpuMemory bias(std::vector<float>{2}), y(static_cast<std::size_t>(rows) * sizeof(float));
  const FewRows::Operands operands = {nullptr, bias.pointer(), y.pointer()};
  product.run(args_on_queue(), nullptr, nullptr, {&operands, 1});
  const Array got = y.array({DType::f32, {rows}, {}});
  for (std::int64_t i = 0; i < rows; ++i) ASSERT_EQ(get(got, i), 2) << "row " << i;
}

// Likewise, tiles of 64 rows.
TEST(Tiles, RowsBeyondOneGridAreComputed) {
  const std::int64_t rows = 65'535 * 64 + 1;
  const Array got = run_op(
      "matmul", "tiles", {zeros({DType::f32, {rows, 0}, {}}), zeros({DType::f32, {0, 1}, {}})})[0];
  for (std::int64_t i = 0; i < rows; ++i) ASSERT_EQ(get(got, i), 0) << "row " << i;
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
  for_all_formats([](const BlockFormat& format, DType dtype) {
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
  const Array got{{DType::f32, {m, n}, {}}, large_product(spec, &format, x, blocks)},
      want{got.type, large_product(spec, nullptr, x, w.bytes)};
  // The library may add the terms of a panel in another order than the terms of the whole matrix.
  for (std::int64_t i = 0; i < m * n; ++i) EXPECT_NEAR(get(got, i), get(want, i), 1e-2) << i;
}

// The gradient to the input of a linear: blocks are along n.
TEST(LargeProduct, StoredColumnsHaveTheBitsOfWidenedOnes) {
  for_all_formats([](const BlockFormat& format, DType dtype) {
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

TEST(LargeProduct, OneThatHangsIsNamed) {
  const std::unique_ptr<Backend> gpu = cuda::emulation::open_emulated_gpu();
  auto& context = static_cast<cuda::CudaContext&>(gpu->context());
  context.set_patience(std::chrono::milliseconds(500));
  {
    const cuda::LargeProduct product(
        context, {.m = 11, .n = 20, .k = 32, .in = DType::f32, .out = DType::f32}, nullptr);
    const auto memory = gpu->allocate(8192), workspace = gpu->allocate(product.workspace_bytes());
    const auto at = [&](std::size_t byte) {
      return reinterpret_cast<void*>(memory->address() + byte);
    };
    cuda::emulation::fail_later(cuda::emulation::FaultPlace::hang, 0);
    product.run({.inputs = {},
                 .outputs = {},
                 .workspace = reinterpret_cast<std::byte*>(workspace->address()),
                 .queue = &context.queue()},
                at(0), at(2048), nullptr, nullptr, at(6144));
    EXPECT_ERROR_SAYS(context.queue().finish(), ExitCode::memory,
                      "cuda: the kernel cublasLtMatmul does not end: no progress for 0.5 s");
  }
  cuda::emulation::reset_gpu();
}

// A bias may be a view, at any element.
TEST(LargeProducts, AWideBiasIsRoundedToTheResult) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const std::int64_t rows = 20, n = 24, k = 32;
    const Array x = random_values({dtype, {rows, k}, {}}, 1),
                w = random_values({dtype, {n, k}, {}}, 2),
                wide = random_values({DType::f32, {n}, {}}, 3);
    Array narrow{{dtype, {n}, {}}, Bytes(static_cast<std::size_t>(n * size_bytes(dtype)))};
    for (std::int64_t i = 0; i < n; ++i) set(narrow, i, get(wide, i));
    const auto product_with = [&](const Array& bias, std::size_t shift = 0) {
      const cuda::LargeProduct product(
          gpu_context(), {.m = rows, .n = n, .k = k, .in = dtype, .out = dtype, .bias = true},
          nullptr, bias.type.dtype);
      const GpuMemory mx(x), mw(w), mbias(bias, shift),
          y(static_cast<std::size_t>(rows * n * size_bytes(dtype))),
          workspace(product.workspace_bytes());
      product.run(args_on_queue(static_cast<std::byte*>(workspace.pointer())), mx.pointer(),
                  mw.pointer(), mbias.pointer(), nullptr, y.pointer());
      return y.bytes();
    };
    const Bytes want = product_with(narrow);
    EXPECT_EQ(product_with(wide), want) << name(dtype);
    EXPECT_EQ(product_with(wide, 4), want) << name(dtype);
    EXPECT_EQ(product_with(narrow, 2), want) << name(dtype);
  }
}

}  // namespace
}  // namespace lamina::testing
