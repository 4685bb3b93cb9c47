// Runs kernels of tests on the emulated GPU.
//
//   LAMINA_GPU_KERNEL(test_double, InAndOut) { gpu::Global<float> y(p.out); ... }
//   EXPECT_EQ(run_kernel("test_double", {.threads = 32}, counted(32), 32), ...);
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "backends/cuda/emulation/grid.h"
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/launch.h"
#include "cuda/gpu.h"
#include "runtime/host_access.h"

namespace lamina::testing {

namespace gpu = cuda::gpu;

struct InAndOut {
  gpu::Address in, out;
};

// Values in the memory of the GPU.
class OnGpu {
 public:
  explicit OnGpu(const std::vector<float>& values)
      : buffer_(emulated_gpu().allocate(values.size() * sizeof(float))),
        tensor_(*buffer_, 0, host_tensor(std::span(values)).type()) {
    write_tensor<float>(emulated_gpu().context().queue(), tensor_,
                        [&](std::span<float> out) { std::ranges::copy(values, out.begin()); });
  }
  gpu::Address address() const { return {tensor_.address()}; }
  const TensorRef& tensor() const { return tensor_; }
  std::vector<float> read() const {
    return copy_to_host<float>(emulated_gpu().context().queue(), tensor_);
  }

 private:
  std::unique_ptr<Buffer> buffer_;
  TensorRef tensor_;
};

// Returns {0, 1, 2, ...}.
inline std::vector<float> counted(int count) {
  std::vector<float> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), 0.0f);
  return out;
}

// Launches and waits.
template <typename Params>
void launch_and_wait(const std::string& name, const cuda::LaunchShape& shape, const Params& params,
                     const Backend& gpu = emulated_gpu()) {
  Context& context = gpu.context();
  const KernelArgs args = {.inputs = {}, .outputs = {}, .queue = &context.queue()};
  cuda::launch(args, cuda::function(context, name), shape, params);
  context.queue().finish();
}

// Runs a kernel on `in` and returns its `num_out` results, at first -1.
inline std::vector<float> run_kernel(const std::string& name, const cuda::LaunchShape& shape,
                                     const std::vector<float>& in, int num_out) {
  const ResetAfter reset;
  const OnGpu a(in), b(std::vector<float>(static_cast<std::size_t>(num_out), -1));
  launch_and_wait(name, shape, InAndOut{a.address(), b.address()});
  return b.read();
}

}  // namespace lamina::testing
