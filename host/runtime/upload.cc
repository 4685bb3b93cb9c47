#include "runtime/upload.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "graph/bytes_type.h"

namespace lamina {

Upload::Upload(const Backend& backend)
    : backend_(backend), queue_(backend.context().make_queue()) {}

// Waits: the pieces are in use until their copies have run.
Upload::~Upload() {
  try {
    queue_->finish();
  } catch (const std::exception&) {
    // The error of the device occurs again at its next use.
  }
}

void Upload::copy(const TensorRef& to, std::span<const std::byte> from) {
  LAMINA_ASSERT(to.bytes() == from.size());
  const TensorRef bytes = to.part(0, bytes_type(to.bytes()));
  for (std::size_t done = 0; done < from.size();) {
    Piece& piece = pieces_[next_++ % kNumPieces];
    if (piece.copied) piece.copied->wait();
    if (!piece.memory) piece.memory = backend_.allocate_for_copies(kPieceBytes);
    const std::size_t count = std::min(kPieceBytes, from.size() - done);
    const TensorRef here(*piece.memory, 0, bytes_type(count));
    std::memcpy(host_view<std::byte>(here).data(), from.data() + done, count);
    queue_->copy(bytes.part(static_cast<std::int64_t>(done), bytes_type(count)), here);
    piece.copied = queue_->record();
    done += count;
  }
}

void Upload::finish() { backend_.context().queue().wait(queue_->record()); }

}  // namespace lamina
