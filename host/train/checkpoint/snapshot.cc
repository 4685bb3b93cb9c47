#include "train/checkpoint/snapshot.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/error.h"
#include "core/stopwatch.h"
#include "graph/bytes_type.h"
#include "train/optimizer/update_rules.h"

namespace lamina::train {
namespace {

// Small enough to stay in the cache between the copy and the write; training waits for one at most.
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

}  // namespace

std::size_t max_snapshot_bytes(const decoder::ParameterTable& parameters,
                               const config::OptimizerSection& optimizer, KeptAverage average) {
  std::size_t out = 0;
  for (const decoder::Parameter& p : parameters.all()) {
    if (p.learning.frozen) continue;
    const std::size_t bytes = static_cast<std::size_t>(p.num_elements()) * sizeof(float);
    out += bytes;
    if (!p.learns()) continue;
    if (average != KeptAverage::none) out += bytes;
    for (const StateSpec& state : state_of(p, optimizer)) out += bytes_of(state.type);
  }
  return out;
}

Snapshot::Snapshot(const decoder::ParameterTable& parameters, TrainState& state)
    : state_(state), queue_(state.context().make_queue()) {
  of_parameter_.resize(parameters.all().size());
  for (std::size_t i = 0; i < parameters.all().size(); ++i)
    add(static_cast<int>(i), state.kept(static_cast<int>(i)));
  for (const OptimizerState& kept : state.optimizer_states())
    for (std::size_t i = 0; i < kept.data.size(); ++i)
      if (kept.data[i]) add(static_cast<int>(i), kept.data[i]);
  for (std::size_t i = 0; i < state.averages().size(); ++i)
    if (state.averages()[i]) add(static_cast<int>(i), state.averages()[i]);
  state_.set_observer([this](int parameter) { before_change(parameter); });
  queue_->wait(state.queue().record());
}

Snapshot::~Snapshot() { state_.set_observer({}); }

void Snapshot::add(int parameter, const TensorRef& tensor) {
  const std::size_t bytes = tensor.bytes();
  if (bytes == 0) return;  // it shares its address with the next
  Piece& piece = pieces_[tensor.address()];
  piece.live = tensor.part(0, bytes_type(bytes));
  piece.bytes = bytes;
  of_parameter_[static_cast<std::size_t>(parameter)].push_back(&piece);
  num_bytes_ += bytes;
}

// Copies bytes that were not read yet.
void Snapshot::copy_bytes(const Piece& piece, std::byte* to, std::size_t count) const {
  const Type type = bytes_type(count);
  queue_->copy(host_tensor(to, type), piece.live.part(static_cast<std::int64_t>(piece.read), type));
  queue_->finish();
}

void Snapshot::read(const TensorRef& tensor, const io::ByteSink& sink) {
  Piece& piece = pieces_.at(tensor.address());
  std::vector<std::byte> chunk(std::min(kChunkBytes, piece.bytes));
  while (piece.read < piece.bytes) {
    const std::size_t count = std::min(kChunkBytes, piece.bytes - piece.read);
    {
      std::lock_guard lock(mutex_);
      if (piece.copy)
        std::memcpy(chunk.data(), piece.copy.get() + (piece.read - piece.first_copied), count);
      else
        copy_bytes(piece, chunk.data(), count);
      piece.read += count;
      if (piece.read == piece.bytes) {
        piece.copy.reset();
        was_read_.notify_all();
      }
    }
    num_read_ += count;
    sink(std::span(chunk).first(count));
  }
}

void Snapshot::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  was_read_.notify_all();
}

void Snapshot::before_change(int parameter) {
  const Stopwatch watch;
  {
    std::unique_lock lock(mutex_);
    for (Piece* piece : of_parameter_[static_cast<std::size_t>(parameter)]) keep(*piece, lock);
  }
  pause_seconds_ += watch.seconds();
}

void Snapshot::keep(Piece& piece, std::unique_lock<std::mutex>& lock) {
  const std::size_t left = piece.bytes - piece.read;
  if (closed_ || left == 0 || piece.copy) return;
  piece.copy.reset(new (std::nothrow) std::byte[left]);
  if (!piece.copy) {
    was_read_.wait(lock, [&] { return closed_ || piece.read == piece.bytes; });
    return;
  }
  piece.first_copied = piece.read;
  copy_bytes(piece, piece.copy.get(), left);
  num_copied_ += left;
}

}  // namespace lamina::train
