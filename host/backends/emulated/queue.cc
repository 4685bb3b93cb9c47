#include "backends/emulated/queue.h"

#include <cstring>
#include <utility>

#include "backends/emulated/memory.h"
#include "backends/emulated/worker.h"
#include "core/error.h"
#include "runtime/pending_uploads.h"

namespace lamina::emulated {
namespace {

class EmulatedEvent final : public Event {
 public:
  explicit EmulatedEvent(std::shared_ptr<Mark> mark) : mark_(std::move(mark)) {}
  void wait() const override { Worker::instance().wait(*mark_); }
  double seconds() const override {
    wait();
    return std::chrono::duration<double>(mark_->time.time_since_epoch()).count();
  }
  const std::shared_ptr<Mark>& mark() const { return mark_; }

 private:
  std::shared_ptr<Mark> mark_;
};

class EmulatedQueue final : public Queue, public PendingUploads {
 public:
  EmulatedQueue() : PendingUploads(static_cast<Queue&>(*this)) { Worker::instance().open(line_); }
  ~EmulatedQueue() override { Worker::instance().close(line_); }

  void enqueue(Kernel& kernel, const KernelArgs& args) override {
    before_use(args);
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (const void* input : args.inputs)
      inputs.push_back(behind(reinterpret_cast<Address>(input)));
    for (void* output : args.outputs) outputs.push_back(behind(reinterpret_cast<Address>(output)));
    auto* workspace = static_cast<std::byte*>(behind(reinterpret_cast<Address>(args.workspace)));
    add([this, &kernel, inputs = std::move(inputs), outputs = std::move(outputs), workspace] {
      kernel.run({inputs, outputs, workspace, this});
    });
  }

  void copy(const TensorRef& to, const ConstTensorRef& from) override {
    LAMINA_ASSERT(to.bytes() == from.bytes());
    before_use(to);
    before_use(from);
    add([to = behind(to.address()), from = behind(from.address()), bytes = to.bytes()] {
      if (bytes > 0) std::memmove(to, from, bytes);
    });
  }

  void fill(const TensorRef& to, std::byte value) override {
    before_use(to);
    add([to = behind(to.address()), value, bytes = to.bytes()] {
      if (bytes > 0) std::memset(to, std::to_integer<int>(value), bytes);
    });
  }

  std::shared_ptr<const Event> record() override {
    auto mark = std::make_shared<Mark>();
    Worker::instance().add(line_, {.marks = mark});
    return std::make_shared<const EmulatedEvent>(std::move(mark));
  }

  void wait(std::shared_ptr<const Event> event) override {
    const auto& mine = dynamic_cast<const EmulatedEvent&>(*event);
    Worker::instance().add(line_, {.waits = mine.mark()});
  }

  void finish() override { record()->wait(); }

 private:
  void add(std::function<void()> run) { Worker::instance().add(line_, {.run = std::move(run)}); }

  Line line_;
};

}  // namespace

EmulatedContext::EmulatedContext() : queue_(make_queue()) {}

std::unique_ptr<Queue> EmulatedContext::make_queue() { return std::make_unique<EmulatedQueue>(); }

}  // namespace lamina::emulated
