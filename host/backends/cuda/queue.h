// The queues of a GPU: streams of the driver. Recorded work is a CUDA graph.
#pragma once

#include <memory>
#include <string>

#include "backends/cuda/context.h"
#include "backends/cuda/progress.h"
#include "runtime/pending_uploads.h"
#include "runtime/queue.h"
#include "runtime/recorder.h"

namespace lamina::cuda {

class CudaQueue final : public Queue, public Recorder, public PendingUploads {
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

  bool records() const override { return records_; }
  void begin_recording() override;
  bool is_recording() const override { return is_recording_; }
  std::unique_ptr<RecordedWork> end_recording(std::unique_ptr<RecordedWork> old) override;
  void drop_recording() override;
  void replay(const RecordedWork& recording) override;
  Counts recorded() const override { return recorded_; }

  // Notes work that a kernel has put on the stream, for the report of a hang. The name is kept by
  // its address, and must stay as long as the context.
  void note(const std::string& name) { progress_->add(name); }
  void note(std::string&&) = delete;
  // Notes a copy or a fill likewise.
  void note_copy() { progress_->add_copy(); }

 private:
  CudaContext& context_;
  StreamHandle stream_ = nullptr;
  std::shared_ptr<QueueProgress> progress_;
  bool records_;  // unless LAMINA_GPU_GRAPHS=0
  bool is_recording_ = false;
  Counts recorded_;

  // Returns the work of the capture; null if a call made it invalid.
  using OwnedGraph = std::unique_ptr<DriverGraph, DriverResult (*)(GraphHandle)>;
  OwnedGraph end_capture();
};

}  // namespace lamina::cuda
