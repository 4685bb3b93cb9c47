#include "backends/cuda/queue.h"

#include "core/error.h"
#include "runtime/kernel.h"

namespace lamina::cuda {
namespace {

class CudaEvent final : public Event {
 public:
  CudaEvent(CudaContext& context, StreamHandle stream)
      : context_(context), origin_(context.time_origin()) {
    check(context.api(), context.api().make_event(&handle_, kEventDefault), "creating an event");
    check(context.api(), context.api().record_event(handle_, stream), "recording an event");
  }
  ~CudaEvent() override {
    if (context_.api().set_context(context_.handle()) == DriverResult::success)
      context_.api().destroy_event(handle_);
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void wait() const override {
    context_.enter();
    check(context_.api(), context_.api().finish_event(handle_), "waiting for work");
  }
  double seconds() const override {
    wait();
    float milliseconds = 0;
    check(context_.api(), context_.api().elapsed(&milliseconds, origin_->event, handle_),
          "reading the time of work");
    return origin_->seconds + 1e-3 * static_cast<double>(milliseconds);
  }
  EventHandle handle() const { return handle_; }

 private:
  const CudaContext& context_;
  const std::shared_ptr<const CudaContext::TimeOrigin> origin_;
  EventHandle handle_ = nullptr;
};

}  // namespace

CudaQueue::CudaQueue(CudaContext& context) : context_(context) {
  context.enter();
  check(context.api(), context.api().make_stream(&stream_, kStreamNonBlocking),
        "creating a stream");
}

CudaQueue::~CudaQueue() {
  if (context_.api().set_context(context_.handle()) != DriverResult::success) return;
  context_.api().finish_stream(stream_);
  context_.api().destroy_stream(stream_);
}

void CudaQueue::enqueue(Kernel& kernel, const KernelArgs& args) {
  context_.enter();
  KernelArgs mine = args;
  mine.queue = this;
  kernel.run(mine);
}

void CudaQueue::copy(const TensorRef& to, const ConstTensorRef& from) {
  LAMINA_ASSERT(to.bytes() == from.bytes());
  if (to.bytes() == 0) return;
  context_.enter();
  check(context_.api(), context_.api().copy(to.address(), from.address(), to.bytes(), stream_),
        "copying");
}

void CudaQueue::fill(const TensorRef& to, std::byte value) {
  if (to.bytes() == 0) return;
  if (is_host_memory(to.kind())) {
    // The driver fills memory of the GPU only.
    finish();
    for (std::byte& byte : host_view<std::byte>(to)) byte = value;
    return;
  }
  context_.enter();
  check(
      context_.api(),
      context_.api().fill(to.address(), std::to_integer<unsigned char>(value), to.bytes(), stream_),
      "filling memory");
}

std::shared_ptr<const Event> CudaQueue::record() {
  context_.enter();
  return std::make_shared<const CudaEvent>(context_, stream_);
}

void CudaQueue::wait(std::shared_ptr<const Event> event) {
  context_.enter();
  const auto& mine = dynamic_cast<const CudaEvent&>(*event);
  check(context_.api(), context_.api().wait_event(stream_, mine.handle(), 0),
        "waiting for another queue");
}

void CudaQueue::finish() {
  context_.enter();
  check(context_.api(), context_.api().finish_stream(stream_), "waiting for work");
}

}  // namespace lamina::cuda
