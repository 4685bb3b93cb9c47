// Connected emulated GPUs.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "backends/cuda/emulation/driver.h"
#include "backends/cuda/emulation/nccl.h"
#include "device/connect.h"
#include "device/cuda.h"

namespace lamina::testing {

class GpuGroup {
 public:
  explicit GpuGroup(int count, std::chrono::milliseconds time_limit = std::chrono::minutes{2}) {
    cuda::emulation::set_num_gpus(count);
    std::vector<const device::Device*> devices;
    for (int i = 0; i < count; ++i) {
      gpus_.push_back(std::make_unique<device::CudaDevice>(
          device::gpu_name(i), cuda::emulation::open_emulated_gpu(i),
          device::GpuConnection{cuda::emulation::nccl_api, time_limit}));
      devices.push_back(gpus_.back().get());
    }
    group_ = device::connect(devices);
    group_.bucket_bytes = 2048;  // several in small models
  }
  ~GpuGroup() {
    group_ = {};
    cuda::emulation::reset_nccl();
    cuda::emulation::reset_gpu();
    gpus_.clear();
    cuda::emulation::set_num_gpus(1);
  }
  GpuGroup(const GpuGroup&) = delete;
  GpuGroup& operator=(const GpuGroup&) = delete;

  CommunicatorGroup& operator*() { return group_; }
  CommunicatorGroup* get() { return &group_; }
  const Backend& first() const { return gpus_.front()->backend(); }

 private:
  std::vector<std::unique_ptr<device::CudaDevice>> gpus_;
  CommunicatorGroup group_;
};

}  // namespace lamina::testing
