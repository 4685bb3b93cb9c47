#include "runtime/pending_uploads.h"

#include <chrono>
#include <iterator>

#include "core/stopwatch.h"

namespace lamina {

void PendingUploads::expect(const TensorRef& tensor, Copied copied) {
  const std::lock_guard lock(mutex_);
  parts_.insert_or_assign(tensor.address(), std::pair(tensor.bytes(), std::move(copied)));
  any_ = true;
}

void PendingUploads::expect_end(std::shared_future<void> ended) {
  const std::lock_guard lock(mutex_);
  ends_.push_back(std::move(ended));
  any_ = true;
}

void PendingUploads::forget(const TensorRef& tensor) {
  const std::lock_guard lock(mutex_);
  parts_.erase(tensor.address());
  forget_ended();
}

void PendingUploads::count(double bytes, double seconds) {
  const std::lock_guard lock(mutex_);
  times_.bytes += bytes;
  times_.seconds += seconds;
}

PendingUploads::Times PendingUploads::times() {
  std::unique_lock lock(mutex_);
  while (!ends_.empty()) wait_for_an_end(lock);
  return times_;
}

PendingUploads::Parts::iterator PendingUploads::overlapping(Address address, std::size_t bytes) {
  const auto after = parts_.lower_bound(address + bytes);
  if (after == parts_.begin()) return parts_.end();
  const auto last = std::prev(after);
  return last->first + last->second.first > address ? last : parts_.end();
}

void PendingUploads::order(Address address, std::size_t bytes) {
  std::unique_lock lock(mutex_);
  for (auto part = overlapping(address, bytes); part != parts_.end();
       part = overlapping(address, bytes)) {
    const Address begin = part->first;
    const Copied copied = part->second.second;
    lock.unlock();
    const Stopwatch watch;
    copied.wait();
    const double waited = watch.seconds();
    queue_.wait(copied.get());
    lock.lock();
    times_.waited_seconds += waited;
    parts_.erase(begin);
  }
  forget_ended();
}

void PendingUploads::wait_for_an_end(std::unique_lock<std::mutex>& lock) {
  const std::shared_future<void> end = ends_.front();
  lock.unlock();
  end.wait();
  lock.lock();
  forget_ended();
}

void PendingUploads::forget_ended() {
  ends_.remove_if([](const std::shared_future<void>& end) {
    return end.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
  any_ = !parts_.empty() || !ends_.empty();
}

// The memory behind an address belongs to one tensor.
void PendingUploads::order(const KernelArgs& args) {
  for (const void* input : args.inputs)
    if (input) order(reinterpret_cast<Address>(input), 1);
  for (const void* output : args.outputs)
    if (output) order(reinterpret_cast<Address>(output), 1);
}

void PendingUploads::order_all() {
  std::unique_lock lock(mutex_);
  while (any_) {
    if (parts_.empty()) {
      wait_for_an_end(lock);
      continue;
    }
    const auto [begin, part] = *parts_.begin();
    lock.unlock();
    order(begin, part.first);
    lock.lock();
  }
}

}  // namespace lamina
