#include "backends/cuda/emulation/grid.h"

#include <array>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "backends/cuda/emulation/block.h"
#include "backends/cuda/emulation/order.h"
#include "backends/cuda/gpu/warpgroup.h"
#include "core/error.h"

namespace lamina::cuda {
namespace gpu {

thread_local constinit EmulatedThread* this_thread = nullptr;

namespace {
constinit const EmulatedKernel* first_kernel = nullptr;
}  // namespace

EmulatedKernel::EmulatedKernel(const char* kernel_name, std::size_t bytes, int threads,
                               void (*function)(const void*), bool warpgroups, EmulatedWait waits,
                               const char* source)
    : name(kernel_name),
      params_bytes(bytes),
      max_threads(threads),
      has_warpgroups(warpgroups),
      wait(waits),
      file(source),
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
void in_warpgroup(void* operands, void (*run)(void* const*), const std::source_location& where) {
  emulation::BlockThreads::current().in_warpgroup(operands, run, where);
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
void fault_early() { fault("accesses global memory before wait_for_earlier()"); }

Located locate(Address address) { return emulation::BlockThreads::current().locate(address); }

CheckedMemory static_shared_extent(const char* key, std::int64_t bytes) {
  return emulation::BlockThreads::current().shared.array(key, bytes);
}
CheckedMemory dynamic_shared_extent() {
  return emulation::BlockThreads::current().shared.dynamic();
}

void note_shared(const std::byte* at, std::int64_t bytes, bool writes) {
  emulation::BlockThreads::current().note(at, bytes, writes);
}

void AsyncRegisters::fault_unfenced() {
  fault("multiplies by registers that it has accessed after the last fence_products()");
}
void AsyncRegisters::fault_under_way() {
  fault("accesses registers of a product before wait_products() of its group");
}
void AsyncRegisters::fault_not_named() {
  fault("accesses registers of a product that no wait_products() names");
}
void WarpgroupProduct::run(void* const* lanes) {
  emulation::BlockThreads::current().multiply(lanes);
}
std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(static_cast<const std::byte*>(at) -
                                    emulation::BlockThreads::current().shared.used().begin);
}
void fence_async() { emulation::BlockThreads::current().fence_async(); }
void wait_until_products(int groups) {
  emulation::BlockThreads::current().wait_until_products(groups);
}

void add_copy(void* to, const void* from, std::int64_t bytes) {
  emulation::BlockThreads::current().add_copy(to, from, bytes);
}
void wait_until_copies(int groups) { emulation::BlockThreads::current().wait_until_copies(groups); }

}  // namespace detail
}  // namespace gpu

namespace emulation {

std::uint64_t read_number(const char* name, std::string_view text, NumberLimits limits) {
  std::uint64_t out = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (bad == std::errc() && end == text.data() + text.size() && limits.min <= out &&
      out <= limits.max)
    return out;
  user_error(ExitCode::usage, name, "got '{}'; expected whole numbers from {} to {}", text,
             limits.min, limits.max);
}

std::uint64_t number_in_environment(const char* name, std::uint64_t otherwise,
                                    NumberLimits limits) {
  const char* text = std::getenv(name);
  return text && *text ? read_number(name, text, limits) : otherwise;
}

namespace {

struct Settings {
  std::uint64_t seed = number_in_environment("LAMINA_GPU_SEED", 1, {});
  std::uint64_t num_launches = 0;
  bool races = number_in_environment("LAMINA_GPU_RACES", 0, {0, 1}) != 0;
  int capability = static_cast<int>(number_in_environment("LAMINA_GPU_CAPABILITY", 90, {80, 90}));
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

int capability() {
  const int out = settings().capability;
  if (out != 80 && out != 86 && out != 89 && out != 90)
    user_error(ExitCode::usage, "LAMINA_GPU_CAPABILITY", "expected 80, 86, 89 or 90, got {}", out);
  return out;
}

void set_capability(int capability) { settings().capability = capability; }

std::int64_t shared_bytes_of_block() {
  switch (capability()) {
    case 90:
      return kMostSharedBytes;
    case 80:
      return 163 << 10;
    default:
      return 99 << 10;
  }
}

void check_races(bool on) { settings().races = on; }
bool checks_races() { return settings().races; }

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

// The file ".../backends_cuda_attention_cudnn_cu.cc", which emulation/CMakeLists.txt makes, has the
// kernels of attention/cudnn.cu.
std::string module_of(const gpu::EmulatedKernel& kernel) {
  constexpr std::string_view kBegin = "backends_cuda_", kEnd = "_cu.cc";
  std::string_view file = kernel.file;
  file.remove_prefix(file.rfind('/') + 1);
  if (!file.starts_with(kBegin) || !file.ends_with(kEnd)) return "";
  return std::string(file.substr(kBegin.size(), file.size() - kBegin.size() - kEnd.size()));
}

std::vector<std::string> module_names() {
  std::set<std::string> names;
  for (const gpu::EmulatedKernel* kernel = gpu::first_kernel; kernel; kernel = kernel->next)
    names.insert(module_of(*kernel));
  return {names.rbegin(), names.rend()};
}

void run_grid(const gpu::EmulatedKernel& kernel, const void* params, const GridShape& shape,
              int gpu) {
  if (kernel.has_warpgroups && capability() != 90)
    throw DeviceError(ExitCode::memory,
                      {kernel.name, "is for compute capability 9.0; other GPUs stop in it", {}});
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
