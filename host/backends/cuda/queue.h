// The queues of a GPU: streams of the driver.
#pragma once

#include "backends/cuda/context.h"
#include "runtime/queue.h"

namespace lamina::cuda {

class CudaQueue final : public Queue {
 public:
  explicit CudaQueue(CudaContext& context);
  ~CudaQueue() override;

  CudaContext& context() const { return context_; }
  StreamHandle stream() const { return stream_; }

  void enqueue(Kernel& kernel, const KernelArgs& args) override;
  void copy(const TensorRef& to, const ConstTensorRef& from) override;
  void fill(const TensorRef& to, std::byte value) override;
  std::shared_ptr<const Event> record() override;
  void wait(std::shared_ptr<const Event> event) override;
  void finish() override;

 private:
  CudaContext& context_;
  StreamHandle stream_ = nullptr;
};

}  // namespace lamina::cuda
