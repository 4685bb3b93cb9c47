#include "runtime/host_transfers.h"

namespace lamina {
namespace {

// Names in traces.
const std::string kLoad = "from host memory", kStore = "to host memory";

}  // namespace

HostTransfers::HostTransfers(const Backend& backend)
    : backend_(backend),
      loads_(backend.context().make_queue()),
      stores_(backend.context().make_queue()) {}

// Waits: the memory of the copies may be freed next.
HostTransfers::~HostTransfers() {
  try {
    loads_->finish();
    stores_->finish();
  } catch (const std::exception&) {
    // The error of the device occurs again at its next use.
  }
}

void HostTransfers::begin(std::size_t num_buffers) {
  buffers_.assign(num_buffers, {});
  start_ = backend_.context().queue().record();
  num_rounds_ = 0;
  has_loads_ = has_stores_ = false;
}

std::size_t HostTransfers::next() {
  end_round();
  return buffer_ = num_rounds_++ % buffers_.size();
}

void HostTransfers::load(const TensorRef& to, const ConstTensorRef& from) {
  if (!has_loads_) {
    const Buffer& buffer = buffers_[buffer_];
    loads_->wait(buffer.computed ? buffer.computed : start_);
    if (buffer.stored) loads_->wait(buffer.stored);
  }
  has_loads_ = true;
  copy(*loads_, kLoad, to, from);
}

void HostTransfers::loaded() {
  Queue& queue = backend_.context().queue();
  if (has_loads_)
    queue.wait(loads_->record());
  else if (buffers_[buffer_].stored)
    queue.wait(buffers_[buffer_].stored);
}

void HostTransfers::computed() {
  buffers_[buffer_] = {.computed = backend_.context().queue().record(), .stored = nullptr};
}

void HostTransfers::store(const TensorRef& to, const ConstTensorRef& from) {
  if (!has_stores_) stores_->wait(buffers_[buffer_].computed);
  has_stores_ = true;
  copy(*stores_, kStore, to, from);
}

void HostTransfers::end_round() {
  if (has_stores_) buffers_[buffer_].stored = stores_->record();
  has_loads_ = has_stores_ = false;
}

void HostTransfers::end() {
  end_round();
  for (const Buffer& buffer : buffers_)
    if (buffer.stored) backend_.context().queue().wait(buffer.stored);
  buffers_.clear();
  start_ = nullptr;
}

void HostTransfers::copy(Queue& queue, const std::string& name, const TensorRef& to,
                         const ConstTensorRef& from) {
  if (!measures_) return queue.copy(to, from);
  std::shared_ptr<const Event> begin = queue.record();
  queue.copy(to, from);
  spans_.push_back({&name, static_cast<double>(to.bytes()), std::move(begin), queue.record()});
}

void HostTransfers::measure(bool enabled) {
  measures_ = enabled;
  spans_.clear();
}

void HostTransfers::read(Trace& trace) {
  for (const Span& span : spans_) {
    const double begin = span.begin->seconds();
    trace.events.push_back({.kernel = span.name,
                            .begin_seconds = begin - trace.begin,
                            .seconds = span.end->seconds() - begin,
                            .copied_bytes = span.bytes});
  }
  spans_.clear();
}

}  // namespace lamina
