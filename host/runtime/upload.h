// Copies from ordinary host memory and mapped files to a device, through pinned memory, on threads
// beside the caller: while some pieces are copied to the device, others are filled.
//
//   Upload upload(backend);
//   upload.add(embedding, bytes_of_a_file);
//   upload.add(head, [&](const Workers& workers, std::byte* out) { ... });   // converts
//   upload.start();
//   program.run(...);   // its first kernel waits for the embedding alone
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "core/stopwatch.h"
#include "core/workers.h"
#include "runtime/backend.h"
#include "runtime/pending_uploads.h"

namespace lamina {

// [one thread]
class Upload {
 public:
  // A thread fills one piece while the other one is copied. One core copies from the page cache at
  // 5 to 10 GB/s, the connection of a GPU at 25 to 55.
  static constexpr std::size_t kPieceBytes = std::size_t{2} << 20;
  static constexpr std::size_t kPiecesPerThread = 2, kMostThreads = 8;

  // Writes all bytes of a tensor; `workers` are the threads of the upload.
  using Make = std::function<void(const Workers& workers, std::byte* out)>;

  // REQUIRES: the backend's queue derives from PendingUploads.
  explicit Upload(const Backend& backend);
  // Ends the upload where it is. REQUIRES: the tensors still exist.
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  // Add a tensor, in the order of the copies. The bytes, and what `make` uses, must stay until the
  // end of the upload. One tensor is made at a time, in host memory. REQUIRES: start() was not
  // called, and no work on the tensor was enqueued.
  void add(const TensorRef& to, std::span<const std::byte> from);
  void add(const TensorRef& to, Make make);

  // Starts to read and copy. Later work of the backend's queue waits for the tensors that it uses,
  // and throws the first error of reading. `between` is called before each piece, by any thread of
  // the upload; an exception that it throws is such an error.
  void start(std::function<void()> between = {});
  // Returns when everything was read, which may be before it was copied. Throws the error of
  // reading.
  void wait_until_read() const;

 private:
  struct Tensor {
    TensorRef to;                     // as bytes
    std::span<const std::byte> from;  // empty until it is made
    Make make = {};                   // null for bytes that exist
    std::unique_ptr<std::byte[]> made = {};
    std::size_t taken = 0, copied = 0;  // bytes: by threads, and enqueued
    std::promise<std::shared_ptr<const Event>> enqueued = {};
    PendingUploads::Copied result = {};
    bool is_done() const { return copied == to.bytes(); }
  };
  struct Piece {
    std::unique_ptr<Buffer> memory;       // allocated at its first use
    std::shared_ptr<const Event> copied;  // null if it was never used
  };
  // A call of the Workers.
  struct SharedWork {
    std::int64_t count;
    const std::function<void(std::int64_t)>* work;
    std::int64_t next = 0, finished = 0;
  };

  void add(Tensor tensor);
  void serve();
  void upload_pieces();
  void make(Tensor& tensor, std::unique_lock<std::mutex>& lock);
  void share(std::int64_t count, const std::function<void(std::int64_t)>& work);
  bool work_on_shared(std::unique_lock<std::mutex>& lock);
  void copy(const Tensor& tensor, std::size_t begin, std::size_t count, Piece& piece);
  void fail(const std::exception_ptr& error);

  const Backend& backend_;
  PendingUploads& pending_;
  std::unique_ptr<Queue> queue_;
  std::function<void()> between_;
  std::vector<Tensor> tensors_;
  std::size_t bytes_ = 0;
  std::vector<std::thread> threads_;
  std::optional<Stopwatch> watch_;  // since start()
  std::promise<void> ended_;

  std::mutex mutex_;  // of the following members, and of the state of tensors
  std::condition_variable changed_;
  std::size_t first_ = 0;  // tensor with bytes that no thread has taken
  bool makes_ = false;     // a thread makes a tensor
  SharedWork* shared_ = nullptr;
  bool stops_ = false;
  std::size_t num_running_ = 0;  // threads
};

}  // namespace lamina
