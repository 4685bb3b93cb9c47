// Runs of a whole program: transfers of inputs and outputs that kernels of a device cannot reach,
// and the steps between them.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "graph/bytes_type.h"
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
  return {buffer, begin, bytes_type(end - begin)};
}

void Program::Staging::copy_in(Queue& queue) {
  end_ = 0;
  if (transfers_.empty()) return;
  if (waits_) queue.finish();
  const auto order = [](const Transfer& t) { return t.in ? (t.out ? 1 : 0) : 2; };
  std::ranges::stable_sort(transfers_, {}, order);
  first_output_ = inputs_end_ = 0;
  for (Transfer& t : transfers_) {
    t.offset = end_;
    end_ += aligned(t.bytes);
    if (!t.out) first_output_ = end_;
    if (t.in) inputs_end_ = end_;
  }
  if (!device_ || device_->bytes() < end_) {
    queue.finish();  // an earlier run may use the memory
    device_ = backend_.allocate(end_);
    host_ = backend_.allocate_for_copies(end_);
    copied_bytes_ = 0;
  }
  for (const Transfer& t : transfers_)
    for (Address* slot : t.slots) *slot = device_->address() + t.offset;
  if (inputs_end_ == 0 || has_same_inputs()) return;
  if (copied_in_) copied_in_->wait();
  for (const Transfer& t : transfers_)
    if (t.in) std::memcpy(mirror() + t.offset, reinterpret_cast<const void*>(t.host), t.bytes);
  queue.copy(bytes_of(*device_, 0, inputs_end_), bytes_of(*host_, 0, inputs_end_));
  copied_in_ = queue.record();
  copied_bytes_ = inputs_end_ == first_output_ ? inputs_end_ : 0;
}

std::byte* Program::Staging::mirror() const {
  return host_view<std::byte>(bytes_of(*host_, 0, end_)).data();
}

// True if the device has the inputs from an earlier run: an optimizer passes the same numbers for
// each parameter.
bool Program::Staging::has_same_inputs() const {
  return copied_bytes_ == inputs_end_ && inputs_end_ == first_output_ &&
         std::ranges::all_of(transfers_, [&](const Transfer& t) {
           return !t.in || std::memcmp(mirror() + t.offset, reinterpret_cast<const void*>(t.host),
                                       t.bytes) == 0;
         });
}

void Program::Staging::copy_out(Queue& queue) {
  if (end_ == 0 || first_output_ == end_) return;
  queue.copy(bytes_of(*host_, first_output_, end_), bytes_of(*device_, first_output_, end_));
  queue.finish();
  for (const Transfer& t : transfers_)
    if (t.out) std::memcpy(reinterpret_cast<void*>(t.host), mirror() + t.offset, t.bytes);
}

std::int64_t Program::Staging::num_calls(const Program& program) {
  std::int64_t count = 0;
  for (const Step& step : program.steps_)
    count += step.scan ? step.scan->times * num_calls(*step.scan->body) : 1;
  return count;
}

std::string Program::Staging::graph_text(const Program& program) const {
  if (!recorded_) return {};
  const std::int64_t count = num_calls(program);
  return count < RecordedRuns::kFewestCalls
             ? fmt::format("no graph: {} kernel calls are too few\n", count)
             : fmt::format(
                   "a graph of {} kernel calls, replayed from the second run on the same "
                   "memory on\n",
                   count);
}

// They are at the end of the arena.
void Program::Step::clear_counters(const Program& program, Address arena) {
  std::size_t bytes = 0;
  for (const Step& step : program.steps_) bytes += aligned(step.counter_bytes);
  if (bytes == 0) return;
  const Address begin = arena + program.arena_bytes_ - bytes;
  program.queue_->fill({begin, program.memory_, bytes_type(bytes)}, std::byte{0});
}

// Kernels depend on the addresses of a run alone: their other arguments are fixed when they are
// made. Events of profiles, and of most watchers, are between kernel calls, so those runs are not
// recorded.
void Program::Staging::run_steps(Program& program, Address arena) {
  const auto enqueue = [&] {
    Step::clear_counters(program, arena);
    program.run_steps(program.bound_, arena);
  };
  addresses_ = {arena};
  if (!recorded_ || program.times_ || num_calls(program) < RecordedRuns::kFewestCalls ||
      (program.watcher_ && !program.watcher_->can_be_recorded(addresses_)))
    return enqueue();
  for (std::size_t i = 0; i < program.bound_.size(); ++i) {
    addresses_.push_back(program.bound_[i].base);
    const std::vector<Address>& pieces = program.bound_pieces_[i];
    addresses_.insert(addresses_.end(), pieces.begin(), pieces.end());
  }
  recorded_->run(addresses_, enqueue);
}

}  // namespace lamina
