// A GPU as a device.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/nccl/communicator.h"
#include "backends/cuda/nccl/open.h"
#include "backends/cuda/timeout.h"
#include "device/cpu.h"

namespace lamina::device {

// How several GPUs are connected.
struct GpuConnection {
  cuda::nccl::OpenNccl open_nccl = cuda::nccl::system_api;
  std::chrono::milliseconds time_limit = cuda::gpu_timeout();  // of collectives
};

// The threads of the host are as on a CPU.
class CudaDevice : public CpuDevice {
 public:
  // The backend is one of backends/cuda.
  CudaDevice(std::string name, std::unique_ptr<Backend> backend,
             const GpuConnection& connection = {});
  ~CudaDevice() override;

  std::string_view name() const override { return name_; }
  const Backend& backend() const override { return *backend_; }
  double read_bandwidth() const override;
  double copy_bandwidth() const override;
  double peak_flops(DType dtype, const formats::BlockFormat* storage = nullptr) const override;
  std::unique_ptr<MemoryPasses> memory() const override;
  std::string_view isa() const override { return architecture_; }
  std::uint64_t available_memory() const override;
  std::uint64_t resident_memory() const override;

  // Opens NCCL; throws DeviceError (exit 7) if it cannot be used.
  const cuda::nccl::NcclApi& nccl() const { return connection_.open_nccl(); }
  std::chrono::milliseconds time_limit() const { return connection_.time_limit; }

 private:
  GpuConnection connection_;
  std::string name_;
  std::unique_ptr<Backend> backend_;
  std::string architecture_;
};

// Names of cards: "h200".
std::vector<std::string> described_gpus();
// Returns a GPU that computes nothing. REQUIRES: `card` is one of these names.
std::unique_ptr<CudaDevice> describe_gpu(std::string_view card);

// Returns "cuda" for the first GPU, and for others eg "cuda:1".
std::string gpu_name(int ordinal);

// Opens GPU `ordinal` of this machine. Throws DeviceError (exit 7) if it cannot be used.
std::unique_ptr<CudaDevice> open_gpu(int ordinal);

}  // namespace lamina::device
