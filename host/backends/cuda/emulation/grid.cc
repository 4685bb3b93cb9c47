#include "backends/cuda/emulation/grid.h"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "backends/cuda/emulation/block.h"
#include "backends/cuda/emulation/order.h"
#include "backends/cuda/gpu/gpu.h"
#include "core/error.h"

namespace lamina::cuda {
namespace gpu {

thread_local constinit EmulatedThread* this_thread = nullptr;
constinit bool detail::checks_races = false;

namespace {
constinit const EmulatedKernel* first_kernel = nullptr;
}  // namespace

EmulatedKernel::EmulatedKernel(const char* kernel_name, std::size_t bytes, int threads,
                               void (*function)(const void*))
    : name(kernel_name),
      params_bytes(bytes),
      max_threads(threads),
      run(function),
      next(std::exchange(first_kernel, this)) {}

void fault(const char* format, ...) {
  std::array<char, 600> text = {};
  std::va_list args;
  va_start(args, format);
  std::vsnprintf(text.data(), text.size(), format, args);
  va_end(args);
  throw DeviceError(ExitCode::memory, {emulation::BlockThreads::current().here(), text.data(), {}});
}

void wait_for_block(const std::source_location& where) {
  emulation::BlockThreads::current().wait_for_block(where);
}
void in_warp(void* operands, void (*run)(void* const*), const std::source_location& where) {
  emulation::BlockThreads::current().in_warp(operands, run, where);
}
void commit_copies() { emulation::BlockThreads::current().commit_copies(); }

namespace detail {

void Vote::run(void* const* lanes) {
  std::uint32_t bits = 0;
  for (int i = 0; i < 32; ++i)
    if (static_cast<const Vote*>(lanes[i])->in) bits |= 1u << i;
  for (int i = 0; i < 32; ++i) static_cast<Vote*>(lanes[i])->out = bits;
}

void fault_outside(const char* memory, const CheckedMemory& extent, std::int64_t offset,
                   std::int64_t bytes) {
  if (!extent.begin) fault("accesses %s memory through a null address", memory);
  fault("accesses bytes [%lld, %lld) of %lld in %s memory", static_cast<long long>(offset),
        static_cast<long long>(offset + bytes), static_cast<long long>(extent.bytes), memory);
}
void fault_misaligned(const char* memory, std::int64_t alignment) {
  fault("accesses %s memory at an address that is no multiple of %lld", memory,
        static_cast<long long>(alignment));
}

Located locate(Address address) { return emulation::BlockThreads::current().locate(address); }

CheckedMemory static_shared_extent(const char* key, std::int64_t bytes) {
  return emulation::BlockThreads::current().shared.array(key, bytes);
}
CheckedMemory dynamic_shared_extent() {
  return emulation::BlockThreads::current().shared.dynamic();
}

void note_shared(const std::byte* at, std::int64_t bytes, bool writes) {
  emulation::BlockThreads::current().shared.note(this_thread->index, at, bytes, writes);
}

void add_copy(void* to, const void* from, std::int64_t bytes) {
  emulation::BlockThreads::current().add_copy(to, from, bytes);
}
void wait_until_copies(int groups) { emulation::BlockThreads::current().wait_until_copies(groups); }

}  // namespace detail
}  // namespace gpu

namespace emulation {

std::uint64_t number_in_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

namespace {

struct Settings {
  std::uint64_t seed = number_in_environment("LAMINA_GPU_SEED", 1);
  std::uint64_t num_launches = 0;
  std::int64_t shared_bytes = static_cast<std::int64_t>(
      number_in_environment("LAMINA_GPU_SHARED_KIB", kMostSharedBytes >> 10) << 10);
  Settings() { gpu::detail::checks_races = number_in_environment("LAMINA_GPU_RACES", 0) != 0; }
};
Settings& settings() {
  static Settings settings;
  return settings;
}

}  // namespace

void set_seed(std::uint64_t seed) {
  settings().seed = seed;
  settings().num_launches = 0;
}

std::int64_t shared_bytes_of_block() { return settings().shared_bytes; }

void check_races(bool on) {
  settings();
  gpu::detail::checks_races = on;
}

const gpu::EmulatedKernel* find_kernel(const char* name) {
  const gpu::EmulatedKernel* found = nullptr;
  for (const gpu::EmulatedKernel* kernel = gpu::first_kernel; kernel; kernel = kernel->next) {
    if (std::strcmp(kernel->name, name) != 0) continue;
    if (found) throw InternalError({"cuda", fmt::format("two kernels have the name {}", name), {}});
    found = kernel;
  }
  return found;
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const gpu::EmulatedKernel* kernel = gpu::first_kernel; kernel; kernel = kernel->next)
    names.emplace_back(kernel->name);
  return names;
}

void run_grid(const gpu::EmulatedKernel& kernel, const void* params, const GridShape& shape,
              int gpu) {
  const std::uint64_t launch = split_mix(settings().seed, settings().num_launches++);
  OrderDraws draws(launch);
  const std::int64_t x = shape.blocks[0], y = shape.blocks[1], count = x * y * shape.blocks[2];
  StepOrder order(count, draws);
  BlockThreads threads(kernel, params, shape, gpu);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t block = order.next();
    threads.run({static_cast<int>(block % x), static_cast<int>(block / x % y),
                 static_cast<int>(block / x / y)},
                OrderDraws(split_mix(launch, static_cast<std::uint64_t>(block))));
  }
}

}  // namespace emulation
}  // namespace lamina::cuda
