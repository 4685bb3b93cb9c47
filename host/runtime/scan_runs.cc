// Runs scans: the program of the body once per layer, with layers of values in host memory copied
// to and from the device around it.
#include "core/error.h"
#include "graph/bytes_type.h"
#include "runtime/program_steps.h"

namespace lamina {

// Sets the addresses of the body's inputs and outputs.
void Program::set_scan_slots(Step& step, Address arena, std::int64_t iteration) {
  Scan& scan = *step.scan;
  const Address workspace = address(step.workspace, arena);
  const std::int64_t layer = scan.reverse ? scan.times - 1 - iteration : iteration;
  // Returns the address of element `layer` of a stacked operand or result; layer 0 for others.
  auto layer_of = [&](const Location& location, std::int64_t index, std::int64_t stride) {
    if (location.space >= 0)
      if (const Address* pieces = slots_[static_cast<std::size_t>(location.space)].pieces) {
        LAMINA_ASSERT(location.offset == 0);
        return pieces[index];
      }
    const Address first = address(location, arena);
    return first ? first + static_cast<Address>(index * stride) : first;
  };
  auto carry_buffer = [&](std::size_t carry, std::int64_t of) {
    std::size_t second = of % 2 ? scan.carry_gap_bytes : 0;
    return workspace + scan.carry_offsets[carry] + second;
  };
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const bool is_carry = scan.shape.is_carried(i);
    const std::size_t carry = i - scan.shape.consts;
    scan.slots[i].base = is_carry && iteration > 0 ? carry_buffer(carry, iteration - 1)
                                                   : layer_of(step.inputs[i], is_carry ? 0 : layer,
                                                              scan.input_strides[i]);
  }
  for (std::size_t i = 0; i < step.outputs.size(); ++i) {
    const bool is_carry = !scan.shape.is_stacked(i);
    scan.slots[step.inputs.size() + i].base =
        is_carry && iteration + 1 < scan.times
            ? carry_buffer(i, iteration)
            : layer_of(step.outputs[i], is_carry ? 0 : layer, scan.output_strides[i]);
  }
}

// Copies the operands of the layer into a buffer, and lets the body use it.
void Program::load_layer(Step& step, Address workspace) {
  Scan& scan = *step.scan;
  HostTransfers& transfers = *host_->transfers;
  const Address buffer =
      workspace + scan.host_buffers_offset + transfers.next() * scan.host_buffer_bytes;
  for (Scan::HostPart& part : scan.host_parts) {
    const Type type = bytes_type(part.bytes);
    const Address here = buffer + part.offset;
    if (part.output >= 0) {
      Slot& slot = scan.slots[step.inputs.size() + static_cast<std::size_t>(part.output)];
      part.host = slot.base;
      slot.base = here;
    }
    if (part.input >= 0) {
      Slot& slot = scan.slots[static_cast<std::size_t>(part.input)];
      transfers.load({here, memory_, type}, TensorRef(slot.base, MemoryKind::pinned, type));
      slot.base = here;
    }
  }
  transfers.loaded();
}

void Program::store_layer(Step& step) {
  const Scan& scan = *step.scan;
  HostTransfers& transfers = *host_->transfers;
  transfers.computed();
  for (const Scan::HostPart& part : scan.host_parts) {
    if (part.output < 0) continue;
    const Type type = bytes_type(part.bytes);
    const Address here =
        scan.slots[step.inputs.size() + static_cast<std::size_t>(part.output)].base;
    transfers.store({part.host, MemoryKind::pinned, type}, TensorRef(here, memory_, type));
  }
}

void Program::run_scan(Step& step, Address arena) {
  Scan& scan = *step.scan;
  const Address workspace = address(step.workspace, arena);
  const bool copies = !scan.host_parts.empty();
  const std::int64_t outer = times_ ? times_->iteration : -1;
  if (copies) host_->transfers->begin(scan.num_host_buffers);
  Step::clear_counters(*scan.body, workspace + scan.body_arena_offset);
  for (std::int64_t iteration = 0; iteration < scan.times; ++iteration) {
    if (times_) times_->iteration = iteration;
    set_scan_slots(step, arena, iteration);
    if (copies) load_layer(step, workspace);
    if (watcher_)
      watcher_->enter(*graph_, step.nodes.front(),
                      scan.reverse ? scan.times - 1 - iteration : iteration);
    scan.body->run_steps(scan.slots, workspace + scan.body_arena_offset);
    if (watcher_) watcher_->leave();
    if (copies) store_layer(step);
  }
  if (copies) host_->transfers->end();
  if (times_) times_->iteration = outer;
}

void Program::reserve_host_memory() {
  if (!host_) return;
  if (host_bytes_ > 0 && !host_->memory)
    host_->memory = host_->backend.allocate_for_copies(host_bytes_);
  if (!host_->transfers) host_->transfers.emplace(host_->backend);
}

namespace {

// Counts bytes of parts for which `counts` is true, over all layers.
template <typename Steps, typename Counts>
double copied_bytes(const Steps& steps, Counts counts) {
  double bytes = 0;
  for (const auto& step : steps) {
    if (!step.scan) continue;
    for (const auto& part : step.scan->host_parts)
      if (counts(part))
        bytes += static_cast<double>(part.bytes) * static_cast<double>(step.scan->times);
  }
  return bytes;
}

}  // namespace

double Program::stored_bytes() const {
  return copied_bytes(steps_, [](const auto& part) { return part.output >= 0; });
}

double Program::loaded_bytes() const {
  return copied_bytes(steps_, [](const auto& part) { return part.input >= 0; });
}

}  // namespace lamina
