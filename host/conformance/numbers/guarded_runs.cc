#include "conformance/numbers/guarded_runs.h"

#include <algorithm>
#include <utility>

#include "conformance/process/descendants.h"
#include "conformance/process/used_memory.h"
#include "graph/bytes_type.h"

namespace lamina::conformance {
namespace {

// Memory between two guard zones. Kernels of a device get a copy of it in memory of the device.
class GuardedBuffer {
 public:
  // Filled with `fill` at first.
  GuardedBuffer(std::size_t bytes, std::byte fill, const Backend& backend)
      : memory_(kZone + bytes + kZone, fill), bytes_(bytes), fill_(fill), backend_(&backend) {
    if (!backend.reaches(MemoryKind::host)) on_device_ = backend.allocate(memory_.size());
  }

  std::byte* data() { return memory_.data() + kZone; }
  std::size_t bytes() const { return bytes_; }
  // The address for kernels.
  std::byte* place() {
    return on_device_ ? reinterpret_cast<std::byte*>(on_device_->address()) + kZone : data();
  }
  // Enqueue copies of everything to the device, and back; nothing without one.
  void to_device() {
    if (on_device_) queue().copy(TensorRef(*on_device_, 0, type()), as_tensor());
  }
  void from_device() {
    if (on_device_) queue().copy(as_tensor(), TensorRef(*on_device_, 0, type()));
  }
  bool is_intact() const {
    const auto untouched = [&](std::byte b) { return b == fill_; };
    return std::all_of(memory_.begin(), memory_.begin() + kZone, untouched) &&
           std::all_of(memory_.end() - kZone, memory_.end(), untouched);
  }
  TensorBytes contents() { return {data(), data() + bytes_}; }

 private:
  static constexpr std::ptrdiff_t kZone = 4096;

  Queue& queue() { return backend_->context().queue(); }
  Type type() const { return bytes_type(memory_.size()); }
  TensorRef as_tensor() { return host_tensor(memory_.data(), type()); }

  TensorBytes memory_;
  std::size_t bytes_;
  std::byte fill_;
  const Backend* backend_;
  std::unique_ptr<Buffer> on_device_;
};

// Memory at a multiple of 64 bytes, with a guard zone on both sides.
class GuardedWorkspace : public GuardedBuffer {
 public:
  GuardedWorkspace(std::size_t bytes, std::byte fill, const Backend& backend)
      : GuardedBuffer(bytes + 64, fill, backend), bytes_(bytes), fill_(fill) {
    to_align_ = (64 - reinterpret_cast<std::uintptr_t>(GuardedBuffer::place()) % 64) % 64;
  }
  std::byte* place() { return GuardedBuffer::place() + to_align_; }
  bool is_intact() {
    const TensorBytes all = contents();
    const auto untouched = [&](std::byte b) { return b == fill_; };
    const auto begin = all.begin() + std::ptrdiff_t(to_align_);
    return GuardedBuffer::is_intact() && std::all_of(all.begin(), begin, untouched) &&
           std::all_of(begin + std::ptrdiff_t(bytes_), all.end(), untouched);
  }

 private:
  std::size_t bytes_, to_align_;
  std::byte fill_;
};

// A tensor of a running program. Its memory on a device belongs to a buffer that is not known here.
class Place final : public Buffer {
 public:
  Place(MemoryKind kind, const void* at, std::size_t bytes) : Buffer(kind, at, bytes) {}
};
Place place_at(const void* at, const Type& type, bool is_on_device) {
  return {is_on_device ? MemoryKind::device : MemoryKind::host, at, bytes_of(type)};
}

}  // namespace

GuardedRuns::GuardedRuns(const NodeView& n, std::unique_ptr<Kernel> kernel, const Compute& compute)
    : op_(n.op().name),
      place_(n.origin() ? " (" + to_string(*n.origin()) + ")" : ""),
      kernel_(std::move(kernel)),
      compute_(compute) {
  for (int i = 0; i < n.num_inputs(); ++i) {
    is_given_.push_back(n.has(i));
    if (n.has(i)) operand_types_.push_back(n.type(i));
  }
  for (int i = 0; i < n.num_outputs(); ++i) result_types_.push_back(n.out_type(i));
}

TensorBytes GuardedRuns::contents(const void* at, const Type& type) const {
  TensorBytes out(bytes_of(type));
  const Place place = place_at(at, type, is_on_device());
  queue().copy(host_tensor(out.data(), type), ConstTensorRef(place, 0, type));
  queue().finish();
  return out;
}

void GuardedRuns::put(void* at, const TensorBytes& bytes, const Type& type) const {
  Place place = place_at(at, type, is_on_device());
  queue().copy(TensorRef(place, 0, type), host_tensor(bytes.data(), type));
  queue().finish();
}

std::vector<TensorBytes> GuardedRuns::run(const std::vector<TensorBytes>& operands, int threads,
                                          std::byte fill) {
  compute_.set_threads(threads);
  const Backend& backend = *compute_.backend;
  std::vector<GuardedBuffer> in, out;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const TensorBytes& operand : operands) {
    in.emplace_back(operand.size(), fill, backend);
    std::ranges::copy(operand, in.back().data());
  }
  for (std::size_t i = 0, next = 0; i < is_given_.size(); ++i)
    inputs.push_back(is_given_[i] ? in[next++].place() : nullptr);
  for (const Type& type : result_types_) {
    out.emplace_back(bytes_of(type), fill, backend);
    outputs.push_back(out.back().place());
  }
  GuardedWorkspace workspace(kernel_->workspace_bytes(), fill, backend);
  const auto each = [&](auto&& act) {
    for (GuardedBuffer& buffer : in) act(buffer);
    for (GuardedBuffer& buffer : out) act(buffer);
    act(workspace);
  };
  each([](GuardedBuffer& buffer) { buffer.to_device(); });
  // With one thread the caller runs all tasks, so new processes and threads belong to the kernel.
  const registry::ProcessCounts before;
  const auto run_once = [&] {
    const std::size_t bytes_before = used_bytes();
    queue().enqueue(*kernel_, {inputs, outputs, workspace.place()});
    const std::size_t bytes_after = used_bytes();
    return bytes_after > bytes_before ? bytes_after - bytes_before : 0;
  };
  std::size_t kept = run_once();
  // The driver of a device starts threads and keeps memory.
  if (threads == 1 && !is_on_device()) {
    // Memory that a run freed counts as used until the next allocation of its size: the C library
    // keeps up to 7 pieces of a size.
    for (int again = 0; kept > 0 && again < 8; ++again) kept = run_once();
    look_at_rest(before, kept);
  }
  each([](GuardedBuffer& buffer) { buffer.from_device(); });
  queue().finish();
  std::vector<TensorBytes> results;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!out[i].is_intact()) wrong("writes beyond result {}, {}", i, to_string(result_types_[i]));
    results.push_back(out[i].contents());
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in[i].is_intact()) wrong("writes beyond input {}, {}", i, to_string(operand_types_[i]));
    if (in[i].contents() != operands[i])
      wrong("changes its input {}, {}", i, to_string(operand_types_[i]));
  }
  if (!workspace.is_intact())
    wrong("writes beyond its workspace of {} bytes", kernel_->workspace_bytes());
  return results;
}

// Called after a run by one thread, which kept `kept` bytes of the heap. The first run may
// prepare constants.
void GuardedRuns::look_at_rest(const registry::ProcessCounts& before, std::size_t kept) {
  const registry::ProcessCounts after;
  if (has_child_processes()) wrong("starts a process; it must not start any (C-10)");
  if (after.threads > before.threads)
    wrong("starts {} thread(s); only parallel_for may share work (C-10)",
          after.threads - before.threads);
  if (after.descriptors > before.descriptors)
    wrong("leaves {} file(s) open (C-10)", after.descriptors - before.descriptors);
  if (kept > 0 && num_runs_ > 0 && ++num_keeping_runs_ > 1)
    wrong("keeps {} bytes of memory in each run; it must free its memory, or use workspace", kept);
  ++num_runs_;
}

}  // namespace lamina::conformance
