#include "backends/cuda/queue.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "runtime/kernel.h"

namespace lamina::cuda {
namespace {

class CudaEvent final : public Event {
 public:
  CudaEvent(CudaContext& context, StreamHandle stream, std::shared_ptr<QueueProgress> progress)
      : context_(context),
        origin_(context.time_origin()),
        progress_(std::move(progress)),
        number_(progress_->next_number()),
        event_(context.record_event(stream, kEventDefault)) {}

  void wait() const override { progress_->wait(handle(), number_); }
  double seconds() const override {
    wait();
    const double origin = context_.seconds_of(*origin_);
    float milliseconds = 0;
    check(context_.api(), context_.api().elapsed(&milliseconds, origin_->event, handle()),
          "reading the time of work");
    return origin + 1e-3 * static_cast<double>(milliseconds);
  }
  EventHandle handle() const { return event_.get(); }

 private:
  CudaContext& context_;
  const std::shared_ptr<CudaContext::TimeOrigin> origin_;
  const std::shared_ptr<QueueProgress> progress_;
  const std::int64_t number_;
  const OwnedEvent event_;
};

class CudaGraph final : public RecordedWork {
 public:
  CudaGraph(const CudaContext& context, ExecutableGraphHandle graph)
      : context_(context), graph_(graph) {}
  // Work that runs keeps what it needs.
  ~CudaGraph() override {
    if (context_.try_enter()) context_.api().destroy_executable(graph_);
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  ExecutableGraphHandle graph() const { return graph_; }

 private:
  const CudaContext& context_;
  ExecutableGraphHandle graph_;
};

// True for memory that the operating system may move, which the driver copies by itself.
bool is_pageable(MemoryKind kind) { return kind == MemoryKind::host || kind == MemoryKind::mapped; }

}  // namespace

CudaQueue::CudaQueue(CudaContext& context)
    : PendingUploads(static_cast<Queue&>(*this)), context_(context) {
  const char* const graphs = std::getenv("LAMINA_GPU_GRAPHS");
  records_ = !graphs || std::string_view(graphs) != "0";
  context.enter();
  check(context.api(), context.api().make_stream(&stream_, kStreamNonBlocking),
        "creating a stream");
  progress_ = std::make_shared<QueueProgress>(context, stream_);
  context.progress().add(progress_);
}

CudaQueue::~CudaQueue() {
  try {
    progress_->finish();
  } catch (const std::exception&) {
    // The error of the device occurs again at its next use.
  }
  progress_->close();
  if (context_.try_enter()) context_.api().destroy_stream(stream_);
}

void CudaQueue::enqueue(Kernel& kernel, const KernelArgs& args) {
  before_use(args);
  context_.enter();
  KernelArgs mine = args;
  mine.queue = this;
  try {
    kernel.run(mine);
  } catch (const DeviceError&) {
    // After work of the GPU has failed, libraries only report that their call failed. The driver
    // names the cause.
    context_.enter();
    std::size_t free = 0, total = 0;
    check(context_.api(), context_.api().memory_info(&free, &total), "running a kernel");
    throw;
  }
}

void CudaQueue::copy(const TensorRef& to, const ConstTensorRef& from) {
  LAMINA_ASSERT(to.bytes() == from.bytes());
  if (to.bytes() == 0) return;
  before_use(to);
  before_use(from);
  // The driver may return only when such a copy has run, and would wait for earlier work without a
  // limit.
  if (!is_recording_ && (is_pageable(to.kind()) || is_pageable(from.kind()))) finish();
  context_.enter();
  check(context_.api(), context_.api().copy(to.address(), from.address(), to.bytes(), stream_),
        "copying");
  progress_->add_copy();
}

void CudaQueue::fill(const TensorRef& to, std::byte value) {
  if (to.bytes() == 0) return;
  if (is_host_memory(to.kind())) {
    // The driver fills memory of the GPU only.
    finish();
    for (std::byte& byte : host_view<std::byte>(to)) byte = value;
    return;
  }
  before_use(to);
  context_.enter();
  check(
      context_.api(),
      context_.api().fill(to.address(), std::to_integer<unsigned char>(value), to.bytes(), stream_),
      "filling memory");
  progress_->add_copy();
}

std::shared_ptr<const Event> CudaQueue::record() {
  context_.enter();
  return std::make_shared<const CudaEvent>(context_, stream_, progress_);
}

void CudaQueue::wait(std::shared_ptr<const Event> event) {
  context_.enter();
  const auto& mine = dynamic_cast<const CudaEvent&>(*event);
  check(context_.api(), context_.api().wait_event(stream_, mine.handle(), 0),
        "waiting for another queue");
}

void CudaQueue::finish() { progress_->finish(); }

// Other threads may call the driver meanwhile; this one must not wait or allocate.
void CudaQueue::begin_recording() {
  before_any_use();
  context_.enter();
  context_.progress().set_capturing(true);
  const DriverResult begun = context_.api().begin_capture(stream_, CaptureMode::thread_local_);
  if (begun != DriverResult::success) context_.progress().set_capturing(false);
  check(context_.api(), begun, "capturing work");
  CudaContext::set_capturing(true);
  is_recording_ = true;
}

// Threads that wait for the capture continue when the driver has ended it, or if the GPU was given
// up.
CudaQueue::OwnedGraph CudaQueue::end_capture() {
  struct End {
    CudaQueue& queue;
    ~End() {
      queue.is_recording_ = false;
      CudaContext::set_capturing(false);
      queue.context_.progress().set_capturing(false);
    }
  } const end{*this};
  const DriverApi& api = context_.api();
  context_.enter();
  GraphHandle captured = nullptr;
  const DriverResult ended = api.end_capture(stream_, &captured);
  return {ended == DriverResult::success ? captured : nullptr, api.destroy_graph};
}

void CudaQueue::drop_recording() { end_capture(); }

std::unique_ptr<RecordedWork> CudaQueue::end_recording(std::unique_ptr<RecordedWork> old) {
  const DriverApi& api = context_.api();
  const OwnedGraph captured = end_capture();
  if (!captured) return nullptr;
  std::size_t nodes = 0;
  check(api, api.graph_nodes(captured.get(), nullptr, &nodes), "counting the work of a graph");
  recorded_.nodes = std::max(recorded_.nodes, static_cast<std::int64_t>(nodes));
  // An update costs a fraction of a new graph; it fails if the kernels differ.
  GraphUpdateInfo info = {};
  if (old && api.update(static_cast<CudaGraph&>(*old).graph(), captured.get(), &info) ==
                 DriverResult::success) {
    ++recorded_.updates;
    return old;
  }
  old.reset();
  ExecutableGraphHandle executable = nullptr;
  const DriverResult result = api.instantiate(&executable, captured.get(), 0);
  if (result == DriverResult::out_of_memory) return nullptr;
  check(api, result, "preparing a graph");
  ++recorded_.graphs;
  return std::make_unique<CudaGraph>(context_, executable);
}

void CudaQueue::replay(const RecordedWork& recording) {
  before_any_use();
  context_.enter();
  check(context_.api(),
        context_.api().launch_graph(static_cast<const CudaGraph&>(recording).graph(), stream_),
        "running a graph");
  static const std::string graph = "of a graph (LAMINA_GPU_GRAPHS=0 runs them one by one)";
  note(graph);
  ++recorded_.replays;
}

}  // namespace lamina::cuda
