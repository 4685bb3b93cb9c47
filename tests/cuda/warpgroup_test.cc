// Products of warpgroups on the emulated GPU (gpu/warpgroup.h): layouts by the PTX manual, and
// mistakes that are reported.
#include <gtest/gtest.h>

#include <random>

#include "backends/cuda/gpu/warpgroup.h"
#include "cuda/run_kernel.h"
#include "support/expect_error.h"

namespace lamina::testing {
namespace {

constexpr int kOperand = 64 * gpu::kSwizzledRow;  // numbers of 64 rows and 64 values of k

// Stores rows [0, count) of x[count, 64] as an operand: row r at r along k, at 64 (r / 64) columns
// across k.
template <bool kAlongK>
void store_operand(const gpu::Global<const float>& x, int count,
                   const gpu::Shared<gpu::bfloat16>& to) {
  for (int i = gpu::thread_index(); i < count * 64; i += gpu::num_threads()) {
    const int row = i / 64, k = i % 64;
    const int in_part =
        kAlongK ? gpu::swizzled(row % 64, k / 8) + k % 8 : gpu::swizzled(k, row % 64 / 8) + row % 8;
    gpu::store(to, row / 64 * kOperand + in_part, x[i]);
  }
}

template <int kColumns>
void store_sums(gpu::Accumulator<kColumns>& sums, const gpu::Global<float>& y) {
  const int row = gpu::thread_index() / 32 * 16 + gpu::lane() / 4;
  for (int n = 0; n < kColumns / 8; ++n)
    for (int i = 0; i < 4; ++i)
      y[(row + i / 2 * 8) * kColumns + n * 8 + gpu::lane() % 4 * 2 + i % 2] = sums[n][i];
}

// y[64, kColumns] = 1 + a[64, 64] b[kColumns, 64]^T, a and b through shared memory.
template <int kColumns, bool kAlongA, bool kAlongB>
void multiply_shared(const InAndOut& p) {
  const gpu::Shared<gpu::bfloat16> a = gpu::swizzled_shared(), b = a + kOperand;
  const gpu::Global<const float> x(p.in);
  store_operand<kAlongA>(x, 64, a);
  store_operand<kAlongB>(x + 64 * 64, kColumns, b);
  gpu::fence_async();
  gpu::sync();
  gpu::Accumulator<kColumns> sums;
  for (int n = 0; n < kColumns / 8; ++n)
    for (float& sum : sums[n]) sum = 1;
  gpu::fence_products(sums);
  const auto of_a = gpu::describe_matrix<kAlongA>(a);
  const auto of_b = gpu::describe_matrix<kAlongB>(b, kOperand * 2);
  for (int step = 0; step < 4; ++step) gpu::warpgroup_multiply(sums, of_a + step, of_b + step);
  gpu::commit_products();
  gpu::wait_products<0>(sums);
  store_sums(sums, gpu::Global<float>(p.out));
}
LAMINA_GPU_KERNEL_90(test_wgmma_64_kk, InAndOut, 128, 1, multiply_shared<64, true, true>(p))
LAMINA_GPU_KERNEL_90(test_wgmma_64_km, InAndOut, 128, 1, multiply_shared<64, true, false>(p))
LAMINA_GPU_KERNEL_90(test_wgmma_64_mk, InAndOut, 128, 1, multiply_shared<64, false, true>(p))
LAMINA_GPU_KERNEL_90(test_wgmma_64_mm, InAndOut, 128, 1, multiply_shared<64, false, false>(p))
LAMINA_GPU_KERNEL_90(test_wgmma_128_kk, InAndOut, 128, 1, multiply_shared<128, true, true>(p))
LAMINA_GPU_KERNEL_90(test_wgmma_128_km, InAndOut, 128, 1, multiply_shared<128, true, false>(p))
LAMINA_GPU_KERNEL_90(test_wgmma_128_mk, InAndOut, 128, 1, multiply_shared<128, false, true>(p))
LAMINA_GPU_KERNEL_90(test_wgmma_128_mm, InAndOut, 128, 1, multiply_shared<128, false, false>(p))

// The same with a in registers.
template <int kColumns, bool kAlongB>
void multiply_fragments(const InAndOut& p) {
  const gpu::Shared<gpu::bfloat16> b = gpu::swizzled_shared();
  const gpu::Global<const float> x(p.in);
  store_operand<kAlongB>(x + 64 * 64, kColumns, b);
  gpu::fence_async();
  gpu::sync();
  gpu::RowFragment a[4];
  const int row = gpu::thread_index() / 32 * 16 + gpu::lane() / 4, k = gpu::lane() % 4 * 2;
  for (int step = 0; step < 4; ++step)
    for (int r = 0; r < 4; ++r) {
      const int at = (row + r % 2 * 8) * 64 + step * 16 + k + r / 2 * 8;
      a[step].registers()[r] = std::uint32_t{gpu::narrow<gpu::bfloat16>(x[at]).bits} |
                               std::uint32_t{gpu::narrow<gpu::bfloat16>(x[at + 1]).bits} << 16;
    }
  gpu::Accumulator<kColumns> sums;
  for (int n = 0; n < kColumns / 8; ++n)
    for (float& sum : sums[n]) sum = 1;
  gpu::fence_products(sums, a);
  const auto of_b = gpu::describe_matrix<kAlongB>(b, kOperand * 2);
  for (int step = 0; step < 4; ++step) gpu::warpgroup_multiply(sums, a[step], of_b + step);
  gpu::commit_products();
  gpu::wait_products<0>(sums);
  store_sums(sums, gpu::Global<float>(p.out));
}
LAMINA_GPU_KERNEL_90(test_wgmma_64_rk, InAndOut, 128, 1, multiply_fragments<64, true>(p))
LAMINA_GPU_KERNEL_90(test_wgmma_64_rm, InAndOut, 128, 1, multiply_fragments<64, false>(p))
LAMINA_GPU_KERNEL_90(test_wgmma_128_rk, InAndOut, 128, 1, multiply_fragments<128, true>(p))
LAMINA_GPU_KERNEL_90(test_wgmma_128_rm, InAndOut, 128, 1, multiply_fragments<128, false>(p))

void expect_product(const std::string& kernel, std::size_t columns) {
  std::mt19937 random(5);
  std::vector<float> in((64 + columns) * 64);
  for (float& x : in) x = static_cast<float>(static_cast<int>(random() % 17) - 8);  // exact
  const auto got = run_kernel(kernel, {.threads = 128, .shared_bytes = 3 * kOperand * 2}, in,
                              static_cast<int>(64 * columns));
  for (std::size_t i = 0; i < 64; ++i)
    for (std::size_t j = 0; j < columns; ++j) {
      float want = 1;
      for (std::size_t k = 0; k < 64; ++k) want += in[i * 64 + k] * in[(64 + j) * 64 + k];
      ASSERT_EQ(got[i * columns + j], want) << kernel << " " << i << " " << j;
    }
}

TEST(WarpgroupProducts, MultiplyMatricesInSharedMemoryInBothOrders) {
  for (const char* orders : {"kk", "km", "mk", "mm"}) {
    expect_product(std::string("test_wgmma_64_") + orders, 64);
    expect_product(std::string("test_wgmma_128_") + orders, 128);
  }
}

TEST(WarpgroupProducts, MultiplyRowsInRegisters) {
  for (const char* orders : {"rk", "rm"}) {
    expect_product(std::string("test_wgmma_64_") + orders, 64);
    expect_product(std::string("test_wgmma_128_") + orders, 128);
  }
}

// The bits of two descriptors, 16 in each number.
void describe_for_test(const InAndOut& p) {
  const gpu::Shared<gpu::bfloat16> first = gpu::swizzled_shared() + 4096;
  const std::uint64_t bits[] = {gpu::describe_matrix<false>(first, 8192).bits,
                                gpu::describe_matrix<true>(first).bits};
  const int i = gpu::thread_index();
  if (i < 8) gpu::Global<float>(p.out)[i] = static_cast<float>(bits[i / 4] >> i % 4 * 16 & 0xffff);
}
LAMINA_GPU_KERNEL_90(test_wgmma_describe, InAndOut, 128, 1, describe_for_test(p))

// Fields are in units of 16 bytes. Dynamic shared memory begins at address 0 here.
TEST(WarpgroupProducts, DescriptorsHaveTheFieldsOfTheManual) {
  const std::vector<float> got =
      run_kernel("test_wgmma_describe", {.threads = 128, .shared_bytes = 16384}, counted(1), 8);
  std::uint64_t bits[2] = {};
  for (std::size_t i = 0; i < 8; ++i)
    bits[i / 4] |= static_cast<std::uint64_t>(got[i]) << i % 4 * 16;
  const std::uint64_t address = 4096 * 2 / 16;                     // bits 0 to 13
  const std::uint64_t leading = std::uint64_t{8192 / 16} << 16;    // 16 to 29
  const std::uint64_t stride = std::uint64_t{8 * 128 / 16} << 32;  // 32 to 45: 8 rows
  const std::uint64_t swizzle_128 = std::uint64_t{1} << 62;        // 62 and 63
  EXPECT_EQ(bits[0], address | leading | stride | swizzle_128);
  EXPECT_EQ(bits[0], 0x4000004002000200);
  EXPECT_EQ(bits[1], 0x4000004000010200);  // along k no distance is read
  const gpu::MatrixDescriptor<true> along{std::uint64_t{1} << 62 | std::uint64_t{64} << 32 | 128};
  EXPECT_EQ((along + 3).bits - along.bits, 6u);  // 96 bytes
  const gpu::MatrixDescriptor<false> across{along.bits};
  EXPECT_EQ((across + 3).bits - across.bits, 384u);  // 6 pieces
  EXPECT_EQ(gpu::swizzled(0, 3), 24);
  EXPECT_EQ(gpu::swizzled(5, 3), 5 * 64 + 6 * 8);
  EXPECT_EQ(gpu::swizzled(13, 3), 13 * 64 + 6 * 8);
}

// ---- mistakes

enum class Mistake {
  none,
  unseen_writes,
  fence_after_sync,
  unfenced_sums,
  unfenced_rows,
  rows_not_named_in_fence,
  sums_not_named_in_wait,
  early_read,
  early_write,
  rows_changed,
  open_group,
  overwrites,
  copies_over,
  no_wait,
  warp_left_out,
  other_line,
  misaligned,
  other_matrices,
  other_groups,
  base_offset,
  reserved_bits,
};

template <Mistake kMistake>
void product_with_mistake(const InAndOut& p) {
  constexpr auto is = [](Mistake mistake) { return kMistake == mistake; };
  const gpu::Shared<gpu::bfloat16> a = gpu::swizzled_shared(), b = a + kOperand;
  const gpu::Global<float> y(p.out);
  const int t = gpu::thread_index();
  for (int i = t; i < 2 * kOperand; i += gpu::num_threads()) gpu::store(a, i, 1);
  const bool early = !is(Mistake::unseen_writes) && !is(Mistake::fence_after_sync);
  if (early || t != 77) gpu::fence_async();
  gpu::sync();
  if (is(Mistake::fence_after_sync)) gpu::fence_async();
  gpu::Accumulator<64> sums;
  gpu::RowFragment rows;
  sums.clear();
  for (std::uint32_t& pair : rows.registers()) pair = 0;
  if (is(Mistake::rows_not_named_in_fence))
    gpu::fence_products(sums);
  else
    gpu::fence_products(sums, rows);
  if (is(Mistake::other_groups) && t == 77) gpu::commit_products();
  if (is(Mistake::unfenced_sums) && t == 77) sums.clear();
  if (is(Mistake::unfenced_rows) && t == 77) rows.registers()[0] = 0;
  if (is(Mistake::warp_left_out) && gpu::warp_index() == 2) return;
  const int shift = is(Mistake::misaligned) ? 64 : is(Mistake::other_matrices) && t == 77 ? 512 : 0;
  auto of_a = gpu::describe_matrix<true>(a + shift);
  const auto of_b = gpu::describe_matrix<true>(b);
  if (is(Mistake::base_offset)) of_a.bits |= std::uint64_t{1} << 49;
  if (is(Mistake::reserved_bits)) of_a.bits |= std::uint64_t{1} << 14;
  if (is(Mistake::other_line) && t < 32)
    gpu::warpgroup_multiply(sums, of_a, of_b);
  else
    gpu::warpgroup_multiply(sums, of_a, of_b);
  gpu::warpgroup_multiply(sums, rows, of_b + 1);
  if (is(Mistake::early_read)) y[0] = sums[0][0];
  if (is(Mistake::early_write)) sums.clear();
  if (is(Mistake::rows_changed)) rows.registers()[0] = 1;
  if (!is(Mistake::open_group)) gpu::commit_products();
  if (is(Mistake::overwrites) && t == 77) gpu::store(b, 5, 2);
  if (is(Mistake::copies_over) && t == 77) {
    gpu::copy_async<16>(b, gpu::Global<const gpu::bfloat16>(p.in));
    gpu::commit_copies();
  }
  if (is(Mistake::sums_not_named_in_wait))
    gpu::wait_products<0>(rows);
  else if (!is(Mistake::no_wait))
    gpu::wait_products<0>(sums, rows);
  gpu::wait_copies<0>();
  if (!is(Mistake::no_wait)) y[t] = sums[0][0];
}
#define LAMINA_TEST_MISTAKE(mistake)                           \
  LAMINA_GPU_KERNEL_90(test_wgmma_##mistake, InAndOut, 128, 1, \
                       product_with_mistake<Mistake::mistake>(p))
LAMINA_TEST_MISTAKE(none)
LAMINA_TEST_MISTAKE(unseen_writes)
LAMINA_TEST_MISTAKE(fence_after_sync)
LAMINA_TEST_MISTAKE(unfenced_sums)
LAMINA_TEST_MISTAKE(unfenced_rows)
LAMINA_TEST_MISTAKE(rows_not_named_in_fence)
LAMINA_TEST_MISTAKE(sums_not_named_in_wait)
LAMINA_TEST_MISTAKE(early_read)
LAMINA_TEST_MISTAKE(early_write)
LAMINA_TEST_MISTAKE(rows_changed)
LAMINA_TEST_MISTAKE(open_group)
LAMINA_TEST_MISTAKE(overwrites)
LAMINA_TEST_MISTAKE(copies_over)
LAMINA_TEST_MISTAKE(no_wait)
LAMINA_TEST_MISTAKE(warp_left_out)
LAMINA_TEST_MISTAKE(other_line)
LAMINA_TEST_MISTAKE(misaligned)
LAMINA_TEST_MISTAKE(other_matrices)
LAMINA_TEST_MISTAKE(other_groups)
LAMINA_TEST_MISTAKE(base_offset)
LAMINA_TEST_MISTAKE(reserved_bits)
#undef LAMINA_TEST_MISTAKE

std::vector<float> run_mistake(const std::string& name, int threads = 128) {
  return run_kernel("test_wgmma_" + name, {.threads = threads, .shared_bytes = 2 * kOperand * 2},
                    counted(64), 128);
}
void expect_mistake(const std::string& name, const std::string& text) {
  EXPECT_ERROR_SAYS(run_mistake(name), ExitCode::memory, text);
}

TEST(WarpgroupFaults, NoMistakeIsNoFault) {
  EXPECT_EQ(run_mistake("none"), std::vector<float>(128, 16));
}

TEST(WarpgroupFaults, WritesMustBeFencedForProducts) {
  expect_mistake("unseen_writes", "that thread 77 wrote without a fence_async()");
}

// The barrier hands the order of the fences on to the other threads.
TEST(WarpgroupFaults, WritesMustBeFencedBeforeTheBarrier) {
  expect_mistake("fence_after_sync",
                 "that thread 77 wrote without a fence_async() and a sync() after it");
}

TEST(WarpgroupFaults, AccessedRegistersMustBeFenced) {
  const char* text = "accessed after the last fence_products()";
  expect_mistake("unfenced_sums", text);
  expect_mistake("unfenced_rows", text);
}

TEST(WarpgroupFaults, FencesAndWaitsMustNameTheRegisters) {
  expect_mistake("rows_not_named_in_fence", "accessed after the last fence_products()");
  expect_mistake("sums_not_named_in_wait", "of a product that no wait_products() names");
}

TEST(WarpgroupFaults, RegistersBelongToTheProductUntilTheWait) {
  const char* text = "accesses registers of a product before wait_products()";
  expect_mistake("early_read", text);
  expect_mistake("early_write", text);
  expect_mistake("rows_changed", text);
}

TEST(WarpgroupFaults, AGroupThatIsOpenDoesNotEnd) {
  expect_mistake("open_group", "accesses registers of a product before wait_products()");
}

TEST(WarpgroupFaults, OperandsMustNotBeWrittenBeforeTheWait) {
  const char* text = "of shared memory before the product that reads it has ended";
  expect_mistake("overwrites", text);
  expect_mistake("copies_over", text);
}

TEST(WarpgroupFaults, AThreadMustNotEndBeforeItsProducts) {
  expect_mistake("no_wait", "ends before its products");
}

TEST(WarpgroupFaults, AllFourWarpsMustTakePart) {
  expect_mistake("warp_left_out", "for its warpgroup at ");
  expect_mistake("other_line", "but other lanes at ");
  EXPECT_ERROR_SAYS(run_mistake("none", 96), ExitCode::memory, "the warpgroup has 96");
}

TEST(WarpgroupFaults, MatricesMustBeginWithAPiece) {
  expect_mistake("misaligned", "at byte 128 of shared memory; expected a multiple of 1024");
  expect_mistake("base_offset", "expected the swizzle of 128 bytes and no base offset");
}

TEST(WarpgroupFaults, ReservedBitsOfDescriptorsMustBeZero) {
  expect_mistake("reserved_bits", "expected 0 in the reserved bits 0x3ff1c000c000c000");
}

TEST(WarpgroupFaults, LanesMustDescribeTheSameMatrices) {
  expect_mistake("other_matrices", "in lane 77 of its warpgroup than in lane 0");
}

TEST(WarpgroupFaults, LanesMustEndGroupsTogether) {
  expect_mistake("other_groups", "has committed 1 groups of products in lane 77");
}

class ScopedCapability {
 public:
  explicit ScopedCapability(int capability) : before_(cuda::emulation::capability()) {
    cuda::emulation::set_capability(capability);
  }
  ~ScopedCapability() { cuda::emulation::set_capability(before_); }
  ScopedCapability(const ScopedCapability&) = delete;
  ScopedCapability& operator=(const ScopedCapability&) = delete;

 private:
  int before_;
};

TEST(WarpgroupFaults, OtherGpusStopInTheKernel) {
  const ScopedCapability older(80);
  expect_mistake("none", "is for compute capability 9.0");
}

LAMINA_GPU_KERNEL(test_wgmma_undeclared, InAndOut) { product_with_mistake<Mistake::none>(p); }

TEST(WarpgroupFaults, KernelsDeclareTheirWarpgroups) {
  expect_mistake("undeclared", "expected a kernel of LAMINA_GPU_KERNEL_90");
}

}  // namespace
}  // namespace lamina::testing
