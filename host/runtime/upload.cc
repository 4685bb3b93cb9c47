#include "runtime/upload.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <system_error>

#include "core/cpu_mask.h"
#include "core/error.h"
#include "graph/bytes_type.h"

namespace lamina {

Upload::Upload(const Backend& backend)
    : backend_(backend),
      pending_(dynamic_cast<PendingUploads&>(backend.context().queue())),
      queue_(backend.context().make_queue()) {}

Upload::~Upload() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  for (const Tensor& tensor : tensors_) pending_.forget(tensor.to);
  try {
    queue_->finish();
  } catch (const std::exception&) {
    // The error of the device occurs again at its next use.
  }
}

void Upload::add(const TensorRef& to, std::span<const std::byte> from) {
  LAMINA_ASSERT(to.bytes() == from.size());
  add(Tensor{.to = to, .from = from});
}

void Upload::add(const TensorRef& to, Make make) {
  add(Tensor{.to = to, .from = {}, .make = std::move(make)});
}

void Upload::add(Tensor tensor) {
  LAMINA_ASSERT(!watch_);
  if (tensor.is_done()) return;  // it has no elements
  tensor.to = tensor.to.part(0, bytes_type(tensor.to.bytes()));
  tensor.result = tensor.enqueued.get_future().share();
  bytes_ += tensor.to.bytes();
  tensors_.push_back(std::move(tensor));
}

void Upload::start(std::function<void()> between) {
  LAMINA_ASSERT(!watch_);
  watch_.emplace();
  if (tensors_.empty()) return;
  between_ = std::move(between);
  for (const Tensor& tensor : tensors_) pending_.expect(tensor.to, tensor.result);
  pending_.expect_end(ended_.get_future().share());
  const std::size_t most =
      std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  const std::size_t wanted = std::clamp<std::size_t>(bytes_ / kPieceBytes, 1, most);
  // All threads start here: a plugin that is opened later would seem to have started them.
  num_running_ = wanted;
  try {
    while (threads_.size() < wanted)
      threads_.emplace_back([this] {
        unpin_this_thread();  // the caller may be the first of the threads that compute
        serve();
      });
    return;
  } catch (const std::system_error&) {
    // A limit on threads was reached.
  }
  {
    const std::lock_guard lock(mutex_);
    num_running_ -= wanted - threads_.size() - 1;
  }
  serve();  // in place of the thread that did not start
}

void Upload::wait_until_read() const {
  for (const Tensor& tensor : tensors_) tensor.result.get();
}

void Upload::serve() {
  upload_pieces();
  {
    const std::lock_guard lock(mutex_);
    if (--num_running_ > 0) return;
    if (!stops_) pending_.count(static_cast<double>(bytes_), watch_->seconds());
  }
  ended_.set_value();
}

// The work of a thread, until all tensors are enqueued.
void Upload::upload_pieces() {
  std::array<Piece, kPiecesPerThread> pieces;
  std::size_t next = 0;
  try {
    std::unique_lock lock(mutex_);
    while (!stops_) {
      if (work_on_shared(lock)) continue;
      if (makes_) {
        changed_.wait(lock);
        continue;
      }
      if (first_ == tensors_.size()) break;
      Tensor& tensor = tensors_[first_];
      if (tensor.from.empty()) {
        make(tensor, lock);
        continue;
      }
      const std::size_t begin = tensor.taken;
      tensor.taken = std::min(begin + kPieceBytes, tensor.to.bytes());
      const std::size_t count = tensor.taken - begin;
      if (tensor.taken == tensor.to.bytes()) ++first_;
      lock.unlock();
      if (between_) between_();
      copy(tensor, begin, count, pieces[next++ % kPiecesPerThread]);
      lock.lock();
      if (stops_) break;
      // The other threads have enqueued their pieces of the tensor before.
      const bool is_last = tensor.copied + count == tensor.to.bytes();
      const std::shared_ptr<const Event> all = is_last ? queue_->record() : nullptr;
      tensor.copied += count;
      if (!is_last) continue;
      tensor.made.reset();
      tensor.enqueued.set_value(all);
    }
  } catch (...) {
    fail(std::current_exception());
  }
  for (const Piece& piece : pieces) try {
      if (piece.copied) piece.copied->wait();
    } catch (...) {
      fail(std::current_exception());
    }
}

// Makes a tensor while other threads wait or take parts of the work.
void Upload::make(Tensor& tensor, std::unique_lock<std::mutex>& lock) {
  makes_ = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    if (between_) between_();
    tensor.made = std::make_unique_for_overwrite<std::byte[]>(tensor.to.bytes());
    tensor.make([this](std::int64_t count, const auto& work) { share(count, work); },
                tensor.made.get());
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  makes_ = false;
  changed_.notify_all();
  if (error) std::rethrow_exception(error);
  tensor.from = {tensor.made.get(), tensor.to.bytes()};
}

void Upload::share(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  SharedWork mine{count, &work};
  std::unique_lock lock(mutex_);
  shared_ = &mine;
  changed_.notify_all();
  while (work_on_shared(lock)) {
  }
  changed_.wait(lock, [&] { return mine.finished == count; });
  shared_ = nullptr;
}

// Does one part of the work of share(); returns false if no part is left.
bool Upload::work_on_shared(std::unique_lock<std::mutex>& lock) {
  if (!shared_ || shared_->next == shared_->count) return false;
  SharedWork& shared = *shared_;
  const std::int64_t part = shared.next++;
  lock.unlock();
  (*shared.work)(part);
  lock.lock();
  if (++shared.finished == shared.count) changed_.notify_all();
  return true;
}

void Upload::copy(const Tensor& tensor, std::size_t begin, std::size_t count, Piece& piece) {
  if (piece.copied) piece.copied->wait();
  if (!piece.memory) piece.memory = backend_.allocate_for_copies(kPieceBytes);
  const TensorRef here(*piece.memory, 0, bytes_type(count));
  std::memcpy(host_view<std::byte>(here).data(), tensor.from.data() + begin, count);
  queue_->copy(tensor.to.part(static_cast<std::int64_t>(begin), bytes_type(count)), here);
  piece.copied = queue_->record();
}

// Gives the error to all who wait for a tensor that is not done.
void Upload::fail(const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  if (stops_) return;
  stops_ = true;
  for (Tensor& tensor : tensors_)
    if (!tensor.is_done()) tensor.enqueued.set_exception(error);
  changed_.notify_all();
}

}  // namespace lamina
