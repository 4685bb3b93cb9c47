#include "train/optimizer/state_buffers.h"

#include <algorithm>

#include "core/error.h"

namespace lamina::train {

void StateSizes::add(std::size_t bytes) {
  std::size_t& most = bytes > most_bytes_ ? alone_ : largest_;
  most = std::max(most, bytes);
}

void StateSizes::add(const StateSizes& more) {
  largest_ = std::max(largest_, more.largest_);
  alone_ = std::max(alone_, more.alone_);
}

std::size_t StateSizes::bytes() const { return std::max(kNumBuffers * largest_, alone_); }

void StateBuffers::begin(const StateSizes& sizes) {
  if (sizes.bytes() == 0) return;
  sizes_ = sizes;
  if (!memory_ || memory_->bytes() < sizes.bytes()) memory_ = backend_.allocate(sizes.bytes());
  if (!transfers_) transfers_.emplace(backend_);
  if (trace_) transfers_->measure(true);
  transfers_->begin(StateSizes::kNumBuffers);
}

std::vector<TensorRef> StateBuffers::load(std::span<const TensorRef> tensors) {
  std::vector<TensorRef> out(tensors.begin(), tensors.end());
  loaded_.clear();
  std::size_t bytes = 0;
  for (const TensorRef& tensor : tensors)
    if (tensor && tensor.kind() == MemoryKind::pinned) bytes += aligned(tensor.bytes());
  if (bytes == 0) return out;
  LAMINA_ASSERT(transfers_ && bytes <= memory_->bytes());
  is_alone_ = bytes > sizes_.buffer_bytes();
  if (is_alone_) {
    transfers_->end();
    transfers_->begin(1);
  }
  std::size_t at = transfers_->next() * sizes_.buffer_bytes();
  for (TensorRef& tensor : out) {
    if (!tensor || tensor.kind() != MemoryKind::pinned) continue;
    const TensorRef here(*memory_, at, tensor.type());
    at += aligned(tensor.bytes());
    transfers_->load(here, tensor);
    loaded_.push_back({here, tensor});
    tensor = here;
  }
  transfers_->loaded();
  return out;
}

void StateBuffers::store() {
  if (loaded_.empty()) return;
  transfers_->computed();
  for (const Loaded& tensor : loaded_) transfers_->store(tensor.home, tensor.here);
  end_update();
}

void StateBuffers::release() {
  if (loaded_.empty()) return;
  transfers_->computed();
  end_update();
}

void StateBuffers::end_update() {
  loaded_.clear();
  if (!is_alone_) return;
  transfers_->end();
  transfers_->begin(StateSizes::kNumBuffers);
}

void StateBuffers::end() {
  if (!transfers_) return;
  transfers_->end();
  if (trace_) transfers_->read(*trace_);
}

void StateBuffers::set_trace(Trace* trace) {
  trace_ = trace;
  if (transfers_) transfers_->measure(trace != nullptr);
}

}  // namespace lamina::train
