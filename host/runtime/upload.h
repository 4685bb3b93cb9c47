// Copies from ordinary host memory and mapped files to a device, through a few pieces of pinned
// memory: while one piece is copied to the device, the next one is filled.
//
//   Upload upload(backend);
//   upload.copy(weight, bytes);   // returns when `bytes` have been read
//   upload.finish();              // later work of the backend's queue sees the weight
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "runtime/backend.h"

namespace lamina {

// [one thread]
class Upload {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{8} << 20, kNumPieces = 3;

  explicit Upload(const Backend& backend);
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  // Enqueues the copy; the spans have the same size.
  void copy(const TensorRef& to, std::span<const std::byte> from);
  // Orders the copies before later work of the backend's queue, which does not wait on the host.
  void finish();

 private:
  struct Piece {
    std::unique_ptr<Buffer> memory;       // made when it is first used
    std::shared_ptr<const Event> copied;  // null if it was never used
  };

  const Backend& backend_;
  std::unique_ptr<Queue> queue_;
  std::array<Piece, kNumPieces> pieces_;
  std::size_t next_ = 0;
};

}  // namespace lamina
