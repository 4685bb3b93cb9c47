// The functions of gpu.h on the emulated GPU: each one does what CUDA documents.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/cuda/gpu/sums.h"
#include "backends/cuda/gpu/tensor_cores.h"
#include "core/float16.h"
#include "cuda/run_kernel.h"

namespace lamina::testing {
namespace {

LAMINA_GPU_KERNEL(test_scale, InAndOut) {
  const gpu::Global<const float> x(p.in);
  const gpu::Global<float> y(p.out);
  for (std::int64_t i = gpu::first_index(); i < 1000; i += gpu::num_indices()) y[i] = 2 * x[i];
}

TEST(GpuFunctions, Example) {
  std::vector<float> want = counted(1000);
  for (float& w : want) w *= 2;
  EXPECT_EQ(run_kernel("test_scale", {.blocks = 3, .threads = 96}, counted(1000), 1000), want);
}

LAMINA_GPU_KERNEL(test_places, InAndOut) {
  const gpu::Global<float> y(p.out);
  const int block =
      gpu::block_index() +
      gpu::num_blocks() * (gpu::block_index_y() + gpu::num_blocks_y() * gpu::block_index_z());
  y[block * gpu::num_threads() + gpu::thread_index()] =
      static_cast<float>(100 * block + 10 * gpu::warp_index() + gpu::lane() % 10);
}

TEST(GpuFunctions, ThreadsKnowTheirPlace) {
  const auto got = run_kernel("test_places",
                              {.blocks = 2, .threads = 64, .blocks_y = 3, .blocks_z = 2}, {}, 768);
  for (int i = 0; i < 768; ++i)
    EXPECT_EQ(got[static_cast<std::size_t>(i)],
              static_cast<float>(100 * (i / 64) + 10 * (i % 64 / 32) + i % 32 % 10));
}

LAMINA_GPU_KERNEL(test_shuffles, InAndOut) {
  const gpu::Global<const float> x(p.in);
  const gpu::Global<float> y(p.out);
  const int t = gpu::thread_index();
  const float mine = x[t];
  y[t] = gpu::shuffle(mine, 5);
  y[64 + t] = gpu::shuffle_xor(mine, 3);
  y[128 + t] = gpu::shuffle_down(mine, 4);
  y[192 + t] = static_cast<float>(gpu::ballot(mine > 60));
  y[256 + t] = gpu::any(mine > 60) ? 1 : 0;
  y[320 + t] = gpu::all(mine > 31) ? 1 : 0;
}

TEST(GpuFunctions, ShufflesAndVotesReachOneWarp) {
  const auto got = run_kernel("test_shuffles", {.threads = 64}, counted(64), 384);
  for (int t = 0; t < 64; ++t) {
    const auto at = [&](int row) { return got[static_cast<std::size_t>(64 * row + t)]; };
    const int first = t / 32 * 32, lane = t % 32;
    EXPECT_EQ(at(0), static_cast<float>(first + 5));
    EXPECT_EQ(at(1), static_cast<float>(t ^ 3));
    EXPECT_EQ(at(2), static_cast<float>(lane + 4 < 32 ? t + 4 : t));
    EXPECT_EQ(at(3), first == 0 ? 0.0f : static_cast<float>(0xe0000000u));
    EXPECT_EQ(at(4), first == 0 ? 0.0f : 1.0f);
    EXPECT_EQ(at(5), first == 0 ? 0.0f : 1.0f);
  }
}

LAMINA_GPU_KERNEL(test_sums, InAndOut) {
  const gpu::Global<const float> x(p.in);
  const gpu::Global<float> y(p.out);
  const float mine = x[gpu::thread_index()];
  const float sum = gpu::block_sum(mine), largest = gpu::block_max(mine, -1e30f);
  if (gpu::thread_index() == 77) y[0] = sum, y[1] = largest;
}

TEST(GpuFunctions, SumsOfABlockHaveTheSameBitsInEachOrder) {
  std::mt19937 random(3);
  std::vector<float> in(96);
  for (float& x : in) x = std::uniform_real_distribution<float>(-1, 1)(random);
  cuda::emulation::set_seed(1);
  const auto first = run_kernel("test_sums", {.threads = 96}, in, 2);
  EXPECT_NEAR(first[0], std::accumulate(in.begin(), in.end(), 0.0), 1e-5);
  EXPECT_EQ(first[1], *std::ranges::max_element(in));
  for (std::uint64_t seed = 2; seed < 8; ++seed) {
    cuda::emulation::set_seed(seed);
    EXPECT_EQ(run_kernel("test_sums", {.threads = 96}, in, 2), first);
  }
}

LAMINA_GPU_KERNEL(test_vectors, InAndOut) {
  const gpu::Global<const float> x(p.in);
  const gpu::Global<float> y(p.out);
  LAMINA_GPU_SHARED(float, row, 8);
  gpu::store_vector<4>(row, 4, gpu::load_vector<4>(x, 4));
  gpu::store_vector<4>(y, 0, gpu::load_vector<4>(row, 4));
}

TEST(GpuFunctions, VectorsAreAdjacentElements) {
  EXPECT_EQ(run_kernel("test_vectors", {.threads = 1}, counted(8), 4),
            (std::vector<float>{4, 5, 6, 7}));
}

LAMINA_GPU_KERNEL(test_atomics, InAndOut) {
  const gpu::Global<std::int32_t> y(p.out);
  LAMINA_GPU_SHARED(std::int32_t, sum, 1);
  if (gpu::thread_index() == 0) sum[0] = 0, y[0] = 0, y[1] = 0;
  gpu::sync();
  gpu::atomic_add(sum, 0, gpu::thread_index());
  gpu::atomic_add(y, 0, gpu::thread_index());
  gpu::atomic_max(y, 1, gpu::thread_index());
  gpu::sync();
  if (gpu::thread_index() == 0) y[2] = sum[0];
}

TEST(GpuFunctions, AtomicsCountEveryThread) {
  const auto got = run_kernel("test_atomics", {.threads = 100}, {}, 3);
  EXPECT_EQ(std::bit_cast<std::int32_t>(got[0]), 4950);
  EXPECT_EQ(std::bit_cast<std::int32_t>(got[1]), 99);
  EXPECT_EQ(std::bit_cast<std::int32_t>(got[2]), 4950);
}

// Two groups of copies; results before the wait, after a wait for the first, after both.
LAMINA_GPU_KERNEL(test_copies, InAndOut) {
  const gpu::Global<const float> x(p.in);
  const gpu::Global<float> y(p.out);
  LAMINA_GPU_SHARED(float, row, 8);
  gpu::copy_async<16>(row, x);
  gpu::commit_copies();
  gpu::copy_async<16>(row + 4, x + 4);
  gpu::commit_copies();
  y[0] = row[0];
  gpu::wait_copies<1>();
  y[1] = row[3], y[2] = row[4];
  gpu::wait_copies<0>();
  y[3] = row[7];
}

TEST(GpuFunctions, CopiesArriveWithTheWait) {
  const auto got = run_kernel("test_copies", {.threads = 1}, counted(8), 4);
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(got[1], 3);
  EXPECT_TRUE(std::isnan(got[2]));
  EXPECT_EQ(got[3], 7);
}

// c[16, 8] = a[16, 16] b[8, 16]^T, all of T, a and b through load_matrix.
template <typename T>
void multiply_test(const InAndOut& p) {
  const gpu::Global<const float> x(p.in);
  const gpu::Global<float> y(p.out);
  LAMINA_GPU_SHARED(T, a, 256);
  LAMINA_GPU_SHARED(T, b, 256);
  const int lane = gpu::lane();
  for (int i = lane; i < 256; i += 32) {
    gpu::store(a, i, x[i]);
    gpu::store(b, i, i < 128 ? static_cast<float>(x[256 + i]) : 0);
  }
  gpu::sync();
  std::uint32_t a_regs[4], b_regs[4];
  gpu::load_matrix(a_regs, a + (lane % 16 * 16 + lane / 16 * 8));
  // Matrices 0 and 1: rows 0 to 7 of b, columns 0 to 7 and 8 to 15.
  gpu::load_matrix(b_regs, b + (lane % 8 * 16 + lane / 8 % 2 * 8));
  float d[4] = {};
  const std::uint32_t b_pair[2] = {b_regs[0], b_regs[1]};
  gpu::mma_16x8x16<T>(d, a_regs, b_pair);
  for (int r = 0; r < 4; ++r) y[(lane / 4 + r / 2 * 8) * 8 + lane % 4 * 2 + r % 2] = d[r];
}
LAMINA_GPU_KERNEL(test_multiply_bf16, InAndOut) { multiply_test<gpu::bfloat16>(p); }
LAMINA_GPU_KERNEL(test_multiply_f16, InAndOut) { multiply_test<gpu::float16>(p); }

TEST(GpuFunctions, TensorCoresMultiplyMatrices) {
  std::mt19937 random(5);
  std::vector<float> in(384);
  for (float& x : in) x = static_cast<float>(static_cast<int>(random() % 17) - 8);  // exact
  for (const char* name : {"test_multiply_bf16", "test_multiply_f16"}) {
    const auto got = run_kernel(name, {.threads = 32}, in, 128);
    for (std::size_t i = 0; i < 16; ++i)
      for (std::size_t j = 0; j < 8; ++j) {
        float want = 0;
        for (std::size_t k = 0; k < 16; ++k) want += in[i * 16 + k] * in[256 + j * 16 + k];
        EXPECT_EQ(got[i * 8 + j], want) << name << " " << i << " " << j;
      }
  }
}

// The transposes of four 8 x 8 matrices, stored one after the other.
LAMINA_GPU_KERNEL(test_transposes, InAndOut) {
  const gpu::Global<const float> x(p.in);
  const gpu::Global<float> y(p.out);
  LAMINA_GPU_SHARED(gpu::bfloat16, m, 256);
  const int lane = gpu::lane();
  for (int i = lane; i < 256; i += 32) gpu::store(m, i, x[i]);
  gpu::sync();
  std::uint32_t regs[4];
  gpu::load_matrix<true>(regs, m + lane * 8);
  for (int j = 0; j < 4; ++j)
    for (int h = 0; h < 2; ++h)
      y[64 * j + lane / 4 * 8 + lane % 4 * 2 + h] =
          gpu::widen(gpu::bfloat16{static_cast<std::uint16_t>(regs[j] >> (16 * h))});
}

TEST(GpuFunctions, LoadedMatricesCanBeTransposed) {
  const auto got = run_kernel("test_transposes", {.threads = 32}, counted(256), 256);
  for (std::size_t i = 0; i < 256; ++i)
    EXPECT_EQ(got[i], static_cast<float>(i / 64 * 64 + i % 8 * 8 + i % 64 / 8));
}

TEST(GpuFunctions, NumbersRoundLikeOnTheHost) {
  for (const float x : {0.0f, -0.0f, 1.00390625f, 1.01171875f, 65519.0f, 65520.0f, 6e-8f, 1e30f,
                        -3.14159f, INFINITY}) {
    EXPECT_EQ(gpu::narrow<gpu::bfloat16>(x).bits, to_bfloat16(x).bits) << x;
    EXPECT_EQ(gpu::narrow<gpu::float16>(x).bits, to_float16(x).bits) << x;
  }
}

}  // namespace
}  // namespace lamina::testing
