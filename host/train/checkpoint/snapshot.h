// The tensors of a training state at one moment, for a thread that writes them while training
// changes them. Nothing is copied at that moment. Code that changes a parameter announces it first;
// only the bytes that were not read by then are copied.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "config/sections.h"
#include "decoder/stack/parameter.h"
#include "io/durable_file.h"
#include "train/optimizer/train_state.h"

namespace lamina::train {

// Maximum number of bytes that a snapshot copies: masters, optimizer states and averages of all
// parameters that training changes.
std::size_t max_snapshot_bytes(const decoder::ParameterTable& parameters,
                               const config::OptimizerSection& optimizer,
                               KeptAverage average = KeptAverage::none);

//   Snapshot now(parameters, state);          [the thread that trains]
//   now.read(state.masters()[0], sink);       [the thread that writes]
class Snapshot {
 public:
  // A snapshot of `state`, which reports changes to it. REQUIRES: there is one at a time; no work
  // of training is under way while it is made or destroyed.
  Snapshot(const decoder::ParameterTable& parameters, TrainState& state);
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;
  ~Snapshot();

  // Passes the bytes of a master, of its average or of an optimizer state to `sink`. Each tensor
  // can be read once. [the thread that writes]
  void read(const TensorRef& tensor, const io::ByteSink& sink);
  // Ends reading: later changes copy nothing. [the thread that writes]
  void close();

  // Copies the unread bytes of a parameter's tensors. Without memory for that it waits until they
  // are read. [the thread that trains]
  void before_change(int parameter);

  std::uint64_t num_bytes() const { return num_bytes_; }
  std::uint64_t num_read() const { return num_read_; }  // [any thread]
  // The cost for training: seconds in before_change(), bytes copied. [the thread that trains]
  double pause_seconds() const { return pause_seconds_; }
  std::uint64_t num_copied() const { return num_copied_; }

 private:
  struct Piece {
    TensorRef live;  // its bytes
    std::size_t bytes = 0, read = 0;
    std::unique_ptr<std::byte[]> copy = {};  // from first_copied on
    std::size_t first_copied = 0;
  };
  void add(int parameter, const TensorRef& tensor);
  void copy_bytes(const Piece& piece, std::byte* to, std::size_t count) const;
  void keep(Piece& piece, std::unique_lock<std::mutex>& lock);

  TrainState& state_;
  // For the thread that writes: its copies do not wait for the work of training.
  std::unique_ptr<Queue> queue_;
  std::mutex mutex_;  // guards all pieces
  std::condition_variable was_read_;
  std::unordered_map<Address, Piece> pieces_;
  std::vector<std::vector<Piece*>> of_parameter_;
  bool closed_ = false;
  std::uint64_t num_bytes_ = 0, num_copied_ = 0;
  std::atomic<std::uint64_t> num_read_ = 0;
  double pause_seconds_ = 0;
};

}  // namespace lamina::train
