// The arguments of a custom op's function for GPUs: tensors in memory of the GPU, and launches. A
// draft (lamina/ext/draft/custom_ops_gpu.h).
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "lamina/ext/draft/custom_ops_gpu.h"
#include "lamina/sdk/kernel_call.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

struct GpuGrid {
  std::int64_t blocks = 1;
  std::uint32_t threads = 256;     // per block
  std::uint32_t shared_bytes = 0;  // dynamic, per block
  std::uint32_t blocks_y = 1, blocks_z = 1, threads_y = 1, threads_z = 1;
};

// One run. data<T>() of a buffer is an address of the GPU, for parameters only; load(), store(),
// begins() and parallel_for() are not available; count() is the buffer of counts. [the thread that
// called run()]
class GpuCall : public KernelCall {
 public:
  GpuCall(std::string_view attr_row, const lamina_kernel_call_t* call, const lamina_gpu_api_t* gpu)
      : KernelCall(attr_row, call), call_(call), gpu_(gpu) {}

  // The inputs that a state needs (lamina_kernel_call_t); absent where the contract says so.
  Buffer positions() const { return Buffer(call_->positions); }
  Buffer segments() const { return Buffer(call_->segments); }
  Buffer start() const { return Buffer(call_->start); }
  Buffer count() const { return Buffer(call_->count); }

  bool begins(std::int64_t b, std::int64_t t) const = delete;
  template <class Task>
  void parallel_for(std::int64_t count, const Task& task) const = delete;

  // Launches the kernel `function` of the images, with the fields of `params` as its parameters.
  template <class Params>
  void launch(std::string_view function, const GpuGrid& grid, const Params& params) const {
    static_assert(std::is_trivially_copyable_v<Params>);
    if (grid.blocks < 0 || grid.blocks > std::numeric_limits<std::int32_t>::max())
      raise(Error(LAMINA_ERROR_ARGUMENT, std::to_string(grid.blocks) + " blocks of '" +
                                             std::string(function) + "'; expected 0 to 2^31 - 1"));
    lamina_gpu_launch_t launch{};
    launch.size = sizeof launch;
    launch.shared_bytes = grid.shared_bytes;
    launch.function = to_str(function);
    launch.blocks[0] = static_cast<std::uint32_t>(grid.blocks);
    launch.blocks[1] = grid.blocks_y;
    launch.blocks[2] = grid.blocks_z;
    launch.threads[0] = grid.threads;
    launch.threads[1] = grid.threads_y;
    launch.threads[2] = grid.threads_z;
    launch.params = &params;
    launch.params_bytes = sizeof params;
    if (const lamina_status_t status = gpu_->launch(call_, &launch); status != LAMINA_OK)
      raise(Error(status, "the launch of '" + std::string(function) + "' failed"));
  }

 private:
  const lamina_kernel_call_t* call_;
  const lamina_gpu_api_t* gpu_;
};

// The images that lamina_add_plugin(... GPU_KERNELS file.cu) compiled: lamina_gpu_image_t.
lamina_span_t gpu_images();

}  // namespace lamina::sdk
#pragma GCC visibility pop
