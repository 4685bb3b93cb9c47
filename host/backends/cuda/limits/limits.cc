#include "backends/cuda/limits/limits.h"

#include <algorithm>
#include <array>

#include "backends/cuda/context.h"
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/limits/params.h"
#include "core/error.h"

namespace lamina::cuda {
namespace {

CudaContext& context_of(const Backend& backend) {
  return static_cast<CudaContext&>(backend.context());
}

// Operations per clock of a multiprocessor; a multiply-add counts as two. NVIDIA's datasheets and
// the table "Arithmetic Instructions" of the CUDA C++ Programming Guide.
struct Throughput {
  int capability;
  double f64, f32, f16;
};
constexpr Throughput kThroughputs[] = {
    {80, 64, 128, 2048},    // A100
    {86, 4, 256, 512},      // GA10x, f32 sums
    {89, 4, 256, 512},      // AD10x, f32 sums
    {90, 128, 256, 4096},   // H100, H200
    {100, 128, 256, 8192},  // B200
    {120, 4, 256, 512},     // GB20x, f32 sums
};

}  // namespace

GpuMemoryReader::GpuMemoryReader(const Backend& backend) : backend_(backend) {
  // Eight times the second-level cache.
  const CudaContext& context = context_of(backend);
  const std::size_t bytes =
      8 * static_cast<std::size_t>(context.attribute(DeviceAttribute::l2_bytes));
  memory_ = backend.allocate(std::max<std::size_t>(bytes / 16 * 16, 16));
  found_ = backend.allocate(sizeof(std::uint32_t));
  const Function read = function(backend.context(), "limits_read");
  const ReadParams p{
      {memory_->address()}, {found_->address()}, static_cast<std::int64_t>(memory_->bytes() / 16)};
  const std::int64_t blocks = 8 * context.attribute(DeviceAttribute::num_multiprocessors);
  kernel_ = make_kernel([p, read, blocks](const KernelArgs& args) {
    launch(args, read, {.blocks = blocks, .threads = 256}, p);
  });
}

std::size_t GpuMemoryReader::bytes() const { return memory_->bytes(); }

double GpuMemoryReader::pass() const {
  Queue& queue = backend_.context().queue();
  const auto begin = queue.record();
  queue.enqueue(*kernel_, {});
  const auto end = queue.record();
  return end->seconds() - begin->seconds();
}

double peak_flops(const Backend& backend, DType dtype) {
  const CudaContext& context = context_of(backend);
  const int mine = context.capability();
  const Throughput* found = std::begin(kThroughputs);
  for (const Throughput& t : kThroughputs)
    if (t.capability <= mine) found = &t;
  const double per_clock = dtype == DType::f64   ? found->f64
                           : dtype == DType::f32 ? found->f32
                                                 : found->f16;
  return per_clock * context.attribute(DeviceAttribute::num_multiprocessors) * 1e3 *
         context.attribute(DeviceAttribute::clock_khz);
}

std::string architecture(const Backend& backend) {
  return fmt::format("sm_{}", context_of(backend).capability());
}

std::size_t free_memory(const Backend& backend) {
  const CudaContext& context = context_of(backend);
  context.enter();
  std::size_t free = 0, total = 0;
  check(context.api(), context.api().memory_info(&free, &total), "reading the free memory");
  return free;
}

KernelTable limits_kernels() { return {}; }  // no op

}  // namespace lamina::cuda
