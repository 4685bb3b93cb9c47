// Transfers of inputs and outputs that kernels of a device cannot reach.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "runtime/program_steps.h"

namespace lamina {

void Program::Staging::add_input(Address host, std::size_t bytes, Address* slot) {
  transfers_.push_back({host, bytes, true, false, {slot}});
}

void Program::Staging::add_output(Address host, std::size_t bytes, Address* slot) {
  transfers_.push_back({host, bytes, false, true, {slot}});
}

void Program::Staging::add_alias(Address host, Address* slot) {
  const auto input =
      std::ranges::find_if(transfers_, [&](const Transfer& t) { return t.in && t.host == host; });
  LAMINA_ASSERT(input != transfers_.end());
  input->out = true;
  input->slots.push_back(slot);
}

TensorRef Program::Staging::bytes_of(Buffer& buffer, std::size_t begin, std::size_t end) const {
  return {buffer, begin, Type{DType::u8, Shape{static_cast<std::int64_t>(end - begin)}, {}}};
}

void Program::Staging::copy_in(Queue& queue) {
  end_ = 0;
  if (transfers_.empty()) return;
  const auto order = [](const Transfer& t) { return t.in ? (t.out ? 1 : 0) : 2; };
  std::ranges::stable_sort(transfers_, {}, order);
  first_output_ = inputs_end_ = 0;
  for (Transfer& t : transfers_) {
    t.offset = end_;
    end_ += aligned(t.bytes);
    if (!t.out) first_output_ = end_;
    if (t.in) inputs_end_ = end_;
  }
  if (copied_in_) copied_in_->wait();
  if (!device_ || device_->bytes() < end_) {
    queue.finish();  // an earlier run may use the memory
    device_ = backend_.allocate(end_);
    host_ = backend_.allocate_for_copies(end_);
  }
  std::byte* mirror = host_view<std::byte>(bytes_of(*host_, 0, end_)).data();
  for (const Transfer& t : transfers_) {
    for (Address* slot : t.slots) *slot = device_->address() + t.offset;
    if (t.in) std::memcpy(mirror + t.offset, reinterpret_cast<const void*>(t.host), t.bytes);
  }
  if (inputs_end_ == 0) return;
  queue.copy(bytes_of(*device_, 0, inputs_end_), bytes_of(*host_, 0, inputs_end_));
  copied_in_ = queue.record();
}

void Program::Staging::copy_out(Queue& queue) {
  if (end_ == 0 || first_output_ == end_) return;
  queue.copy(bytes_of(*host_, first_output_, end_), bytes_of(*device_, first_output_, end_));
  queue.finish();
  const std::byte* mirror = host_view<std::byte>(bytes_of(*host_, 0, end_)).data();
  for (const Transfer& t : transfers_)
    if (t.out) std::memcpy(reinterpret_cast<void*>(t.host), mirror + t.offset, t.bytes);
}

}  // namespace lamina
