// Mistakes in kernels that the emulated GPU finds, each with kernel, block and thread.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "cuda/run_kernel.h"
#include "support/expect_error.h"

namespace lamina::testing {
namespace {

// Expects that the kernel fails with a report that contains the text.
void expect_report(const std::string& kernel, const cuda::LaunchShape& shape,
                   const std::string& text) {
  EXPECT_ERROR_SAYS(run_kernel(kernel, shape, counted(64), 64), ExitCode::memory, text);
}

// ---- synchronisation

// Each thread reads the element of another one.
template <bool Syncs>
void exchange(const InAndOut& p) {
  const gpu::Global<float> y(p.out);
  LAMINA_GPU_SHARED(float, row, 64);
  const int t = gpu::thread_index();
  row[t] = static_cast<float>(t);
  if (Syncs) gpu::sync();
  y[t] = row[63 - t];
}
LAMINA_GPU_KERNEL(test_synced, InAndOut) { exchange<true>(p); }
LAMINA_GPU_KERNEL(test_not_synced, InAndOut) { exchange<false>(p); }

TEST(GpuFaults, AMissingSyncGivesOtherNumbersWithOtherSeeds) {
  std::vector<float> want = counted(64);
  std::ranges::reverse(want);
  std::set<std::vector<float>> wrong;
  for (std::uint64_t seed = 1; seed < 9; ++seed) {
    cuda::emulation::set_seed(seed);
    EXPECT_EQ(run_kernel("test_synced", {.threads = 64}, {}, 64), want);
    const auto got = run_kernel("test_not_synced", {.threads = 64}, {}, 64);
    EXPECT_NE(got, want);
    std::vector<float> numbers = got;
    for (float& x : numbers) x = std::isnan(x) ? -1 : x;  // poison
    wrong.insert(numbers);
  }
  EXPECT_GT(wrong.size(), 1u);
}

TEST(GpuFaults, ARaceOnSharedMemoryIsReported) {
  cuda::emulation::check_races(true);
  EXPECT_NO_THROW(run_kernel("test_synced", {.threads = 64}, {}, 64));
  expect_report("test_not_synced", {.threads = 64}, "without a sync between");
  cuda::emulation::check_races(false);
}

// Lanes exchange through shared memory, with sync_warp() only.
template <int Distance>
void exchange_near(const InAndOut& p) {
  const gpu::Global<float> y(p.out);
  LAMINA_GPU_SHARED(float, row, 64);
  const int t = gpu::thread_index();
  row[t] = static_cast<float>(t);
  gpu::sync_warp();
  y[t] = row[t ^ Distance];
}
LAMINA_GPU_KERNEL(test_in_warp, InAndOut) { exchange_near<1>(p); }
LAMINA_GPU_KERNEL(test_across_warps, InAndOut) { exchange_near<32>(p); }

TEST(GpuFaults, ASyncOfAWarpOrdersItsLanesOnly) {
  cuda::emulation::check_races(true);
  EXPECT_NO_THROW(run_kernel("test_in_warp", {.threads = 64}, {}, 64));
  expect_report("test_across_warps", {.threads = 64}, "without a sync between");
  cuda::emulation::check_races(false);
}

LAMINA_GPU_KERNEL(test_two_lines, InAndOut) {
  if (gpu::thread_index() < 7)
    gpu::sync();
  else
    gpu::sync();
}
LAMINA_GPU_KERNEL(test_one_stays, InAndOut) {
  if (gpu::thread_index() == 40) return;
  gpu::sync();
}
LAMINA_GPU_KERNEL(test_unequal_counts, InAndOut) {
  for (int i = 0; i < (gpu::thread_index() == 3 ? 2 : 3); ++i) gpu::sync();
}
LAMINA_GPU_KERNEL(test_half_shuffles, InAndOut) {
  if (gpu::lane() < 16) gpu::Global<float>(p.out)[0] = gpu::shuffle(1.0f, 0);
}
LAMINA_GPU_KERNEL(test_warp_and_block, InAndOut) {
  if (gpu::lane() < 16)
    gpu::sync_warp();
  else
    gpu::sync();
}
LAMINA_GPU_KERNEL(test_shuffles_apart, InAndOut) {
  gpu::Global<float>(p.out)[0] = gpu::lane() < 16 ? gpu::shuffle(1.0f, 0) : gpu::shuffle(2.0f, 1);
}

TEST(GpuFaults, ThreadsOfABlockMustWaitAtTheSameLine) {
  expect_report("test_two_lines", {.threads = 64}, "test_two_lines, block 0, thread ");
  expect_report("test_two_lines", {.threads = 64}, "waits for the block at ");
}

TEST(GpuFaults, AThreadThatEndsLeavesOthersWaiting) {
  expect_report("test_one_stays", {.threads = 64}, "but thread 40 has ended");
  expect_report("test_unequal_counts", {.threads = 64}, "but thread 3 has ended");
}

TEST(GpuFaults, AllLanesMustTakePart) {
  expect_report("test_half_shuffles", {.threads = 32}, "waits for its warp at ");
  expect_report("test_warp_and_block", {.threads = 32}, "for its warp at ");
  expect_report("test_shuffles_apart", {.threads = 32}, "but other lanes at ");
  expect_report("test_in_warp", {.threads = 40}, "the warp has 8");
}

// ---- launches that begin early

LAMINA_GPU_KERNEL_EARLY(test_waits_in_time, InAndOut, 64, 1) {
  gpu::prefetch(p.in);
  gpu::wait_for_earlier();
  gpu::Global<float>(p.out)[gpu::thread_index()] = 1;
}
LAMINA_GPU_KERNEL_EARLY(test_reads_too_early, InAndOut, 64, 1) {
  const float x = gpu::Global<const float>(p.in)[gpu::thread_index()];
  gpu::wait_for_earlier();
  gpu::Global<float>(p.out)[gpu::thread_index()] = x;
}
LAMINA_GPU_KERNEL_EARLY(test_one_does_not_wait, InAndOut, 64, 1) {
  if (gpu::thread_index() == 5) return;
  gpu::wait_for_earlier();
}
LAMINA_GPU_KERNEL_EARLY(test_prefetches_nothing, InAndOut, 64, 1) {
  gpu::prefetch({p.in.value + (std::uint64_t{1} << 40)});
  gpu::wait_for_earlier();
}

TEST(GpuFaults, AKernelReadsNothingBeforeItWaitsForEarlierLaunches) {
  EXPECT_EQ(run_kernel("test_waits_in_time", {.threads = 64}, counted(64), 64),
            std::vector<float>(64, 1.0f));
  expect_report("test_reads_too_early", {.threads = 64},
                "accesses global memory before wait_for_earlier()");
  expect_report("test_one_does_not_wait", {.threads = 64},
                "test_one_does_not_wait, block 0, thread 5");
  expect_report("test_prefetches_nothing", {.threads = 64}, "in global memory");
}

std::unique_ptr<Backend> open_overlapping_gpu(int capability) {
  const int before = cuda::emulation::capability();
  cuda::emulation::set_capability(capability);
  setenv("LAMINA_GPU_OVERLAP", "1", 1);
  std::unique_ptr<Backend> out = cuda::emulation::open_emulated_gpu(0);
  out->context();  // reads the variable
  unsetenv("LAMINA_GPU_OVERLAP");
  cuda::emulation::set_capability(before);
  return out;
}

LAMINA_GPU_KERNEL(test_waits_first, InAndOut) { static_cast<void>(p); }
// A kernel of another source has no waits.
const gpu::EmulatedKernel kNeverWaits("test_never_waits", sizeof(InAndOut), 64, [](const void*) {});

// The image of other cards has no waits.
TEST(GpuFaults, LaunchesBeginEarlyOnRequestOnCapability90Only) {
  const auto begins_early = [](const Backend& gpu) {
    return cuda::function(gpu.context(), "test_waits_first")->may_begin_early;
  };
  EXPECT_TRUE(begins_early(*open_overlapping_gpu(90)));
  EXPECT_FALSE(begins_early(*open_overlapping_gpu(89)));
  EXPECT_FALSE(begins_early(*cuda::emulation::open_emulated_gpu(0)));
}

TEST(GpuFaults, AnEarlyLaunchOfAKernelThatDoesNotWaitIsRefused) {
  const std::unique_ptr<Backend> gpu = open_overlapping_gpu(90);
  EXPECT_NO_THROW(launch_and_wait("test_waits_first", {.threads = 32}, InAndOut{}, *gpu));
  EXPECT_ERROR_SAYS(launch_and_wait(kNeverWaits.name, {.threads = 32}, InAndOut{}, *gpu),
                    ExitCode::memory, "test_never_waits: invalid argument");
}

// ---- memory

LAMINA_GPU_KERNEL(test_reads_on, InAndOut) {
  gpu::Global<float>(p.out)[0] = gpu::Global<const float>(p.in)[64 * gpu::thread_index()];
}
LAMINA_GPU_KERNEL(test_reads_before, InAndOut) {
  gpu::Global<float>(p.out)[0] = gpu::Global<const float>(p.in)[-1];
}
LAMINA_GPU_KERNEL(test_reads_null, InAndOut) {
  gpu::Global<float>(p.out)[0] = gpu::Global<const float>(gpu::Address{})[0];
}
LAMINA_GPU_KERNEL(test_reads_host, InAndOut) {
  static const float value = 1;
  const gpu::Address address{reinterpret_cast<std::uint64_t>(&value)};
  gpu::Global<float>(p.out)[0] = gpu::Global<const float>(address)[0];
}
LAMINA_GPU_KERNEL(test_vector_on_odd_place, InAndOut) {
  gpu::store_vector<4>(gpu::Global<float>(p.out), 0,
                       gpu::load_vector<4>(gpu::Global<const float>(p.in), 1));
}
LAMINA_GPU_KERNEL(test_doubles_on_odd_place, InAndOut) {
  gpu::Global<float>(p.out)[0] =
      static_cast<float>(gpu::Global<const double>(gpu::Address{p.in.value + 4})[0]);
}
LAMINA_GPU_KERNEL(test_shared_end, InAndOut) {
  LAMINA_GPU_SHARED(float, row, 8);
  row[8] = 1;
}
LAMINA_GPU_KERNEL(test_dynamic_end, InAndOut) { gpu::dynamic_shared<float>()[8] = 1; }

TEST(GpuFaults, AccessesOutsideAnAllocationAreReported) {
  expect_report("test_reads_on", {.threads = 2},
                "test_reads_on, block 0, thread 1: accesses bytes [256, 260) of 256 in global");
  expect_report("test_reads_before", {.threads = 1}, "accesses bytes [-4, 0) of 256");
  expect_report("test_reads_null", {.threads = 1}, "accesses global memory through a null address");
  expect_report("test_reads_host", {.threads = 1}, "accesses bytes [0, 4) of 0 in global");
  expect_report("test_shared_end", {.threads = 1}, "accesses bytes [32, 36) of 32 in shared");
  expect_report("test_dynamic_end", {.threads = 1, .shared_bytes = 32},
                "accesses bytes [32, 36) of 32 in shared");
}

TEST(GpuFaults, MisalignedAccessesAreReported) {
  expect_report("test_vector_on_odd_place", {.threads = 1},
                "accesses global memory at an address that is no multiple of 16");
  expect_report("test_doubles_on_odd_place", {.threads = 1}, "no multiple of 8");
}

LAMINA_GPU_KERNEL(test_unset_shared, InAndOut) {
  LAMINA_GPU_SHARED(float, row, 4);
  gpu::Global<float>(p.out)[gpu::block_index()] = row[1];
  row[1] = 5;
}

TEST(GpuFaults, SharedMemoryIsUndefinedAtTheStartOfEachBlock) {
  for (const float x : run_kernel("test_unset_shared", {.blocks = 3, .threads = 1}, {}, 3))
    EXPECT_TRUE(std::isnan(x));
}

// ---- launches

LAMINA_GPU_KERNEL_BOUNDS(test_bounded, InAndOut, 128, 1) { (void)p; }
LAMINA_GPU_KERNEL(test_large_arrays, InAndOut) {
  LAMINA_GPU_SHARED(float, a, 8000);
  LAMINA_GPU_SHARED(float, b, 8000);
  a[0] = 1, b[0] = 1;
}

TEST(GpuFaults, LaunchesBeyondTheLimitsAreRefused) {
  expect_report("test_bounded", {.threads = 1025}, "test_bounded: invalid argument");
  expect_report("test_bounded", {.threads = 129}, "too many resources requested for launch");
  expect_report("test_bounded", {.shared_bytes = (227 << 10) + 1},
                "test_bounded: invalid argument");
  expect_report("test_large_arrays", {.threads = 1}, "arrays in shared memory need 64000 bytes");
  EXPECT_NO_THROW(run_kernel("test_bounded", {.threads = 128, .shared_bytes = 227 << 10}, {}, 1));
}

TEST(GpuFaults, ParametersOfAnotherSizeAreRefused) {
  EXPECT_ERROR_SAYS(launch_and_wait("test_bounded", {.threads = 32}, std::uint64_t{0}),
                    ExitCode::memory, "test_bounded: invalid argument");
}

TEST(GpuFaults, AnUnknownKernelIsABugOfTheHost) {
  EXPECT_ERROR_SAYS(cuda::function(emulated_gpu().context(), "no_such", DType::bf16),
                    ExitCode::unclassified, "there is no kernel 'no_such_bf16'");
}

const gpu::EmulatedKernel kTwins[] = {{"test_twin", 0, 1, [](const void*) {}},
                                      {"test_twin", 0, 1, [](const void*) {}}};

TEST(GpuFaults, TwoKernelsOfOneNameAreABug) {
  EXPECT_EQ(kTwins[0].params_bytes, 0u);
  EXPECT_ERROR_SAYS(cuda::emulation::find_kernel("test_twin"), ExitCode::unclassified,
                    "two kernels have the name test_twin");
}

// ---- order

LAMINA_GPU_KERNEL(test_block_order, InAndOut) {
  const gpu::Global<std::int32_t> count(p.in);
  gpu::Global<float>(p.out)[gpu::block_index()] = static_cast<float>(gpu::atomic_add(count, 0, 1));
}

TEST(GpuFaults, BlocksRunInAnOrderOfTheSeed) {
  std::set<std::vector<float>> orders;
  for (std::uint64_t seed = 1; seed < 9; ++seed) {
    cuda::emulation::set_seed(seed);
    const auto first = run_kernel("test_block_order", {.blocks = 17, .threads = 1}, {0}, 17);
    cuda::emulation::set_seed(seed);
    EXPECT_EQ(run_kernel("test_block_order", {.blocks = 17, .threads = 1}, {0}, 17), first);
    orders.insert(first);
  }
  EXPECT_GT(orders.size(), 4u);
}

}  // namespace
}  // namespace lamina::testing
