#include "conformance/kernel_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "conformance/check.h"
#include "conformance/compare.h"
#include "conformance/descendants.h"
#include "conformance/used_memory.h"
#include "core/float16.h"
#include "graph/rewrite.h"
#include "ops/custom.h"
#include "program/compile.h"
#include "registry/process_guard.h"

namespace lamina::conformance {
namespace {

using Bytes = std::vector<std::byte>;

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
  Bytes contents() { return {data(), data() + bytes_}; }

 private:
  static constexpr std::ptrdiff_t kZone = 4096;

  Queue& queue() { return backend_->context().queue(); }
  Type type() const { return {DType::u8, Shape{static_cast<std::int64_t>(memory_.size())}, {}}; }
  TensorRef as_tensor() { return host_tensor(memory_.data(), type()); }

  Bytes memory_;
  std::size_t bytes_;
  std::byte fill_;
  const Backend* backend_;
  std::unique_ptr<Buffer> on_device_;
};

std::size_t bytes_of(const Type& type) { return static_cast<std::size_t>(type.bytes()); }

std::vector<float> numbers(const Bytes& bytes, DType dtype) {
  std::vector<float> out(bytes.size() / static_cast<std::size_t>(size_bytes(dtype)));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (dtype == DType::bf16) {
      bfloat16 x;
      std::memcpy(&x, bytes.data() + 2 * i, 2);
      out[i] = to_float(x);
    } else if (dtype == DType::f32) {
      std::memcpy(&out[i], bytes.data() + 4 * i, 4);
    } else {
      std::int32_t x = 0;
      std::memcpy(&x, bytes.data() + i * static_cast<std::size_t>(size_bytes(dtype)),
                  std::min<std::size_t>(4, static_cast<std::size_t>(size_bytes(dtype))));
      out[i] = static_cast<float>(x);
    }
  }
  return out;
}

// Calls change(number) for every number.
template <typename Change>
void change_numbers(Bytes& bytes, DType dtype, Change&& change) {
  std::vector<float> values = numbers(bytes, dtype);
  for (std::size_t i = 0; i < values.size(); ++i) {
    change(values[i]);
    if (dtype == DType::bf16) {
      const bfloat16 x = to_bfloat16(values[i]);
      std::memcpy(bytes.data() + 2 * i, &x, 2);
    } else {
      std::memcpy(bytes.data() + 4 * i, &values[i], 4);
    }
  }
}

// Changes every number by one rounding of its type, up or down.
void disturb(Bytes& bytes, DType dtype) {
  if (!is_floating(dtype)) return;
  std::vector<float> values = numbers(bytes, dtype);
  conformance::disturb(values, dtype == DType::bf16 ? 1.0 / 256 : 1e-7);
  std::size_t i = 0;
  change_numbers(bytes, dtype, [&](float& x) { x = values[i++]; });
}

// The meaning of the op, compiled from its lowering.
class Lowering {
 public:
  Lowering(const NodeView& n, const Backend& backend) {
    const Graph& body = *n.body("body");
    Graph graph;
    std::vector<Tensor> operands;
    for (const GraphInput& input : body.inputs())
      operands.push_back(graph.add_input(input.name, body.type(input.value)));
    const std::vector<Tensor> results = inline_graph(body, graph, operands);
    for (const Tensor& result : results) graph.add_output("result", result);
    program_ = program::compile(std::move(graph), backend);
    arena_ = backend.allocate(program_->arena_bytes());
    queue_ = &backend.context().queue();
  }

  std::vector<Bytes> run(const std::vector<Bytes>& operands, const std::vector<Type>& results) {
    std::vector<Bytes> out;
    std::vector<ConstTensorRef> inputs;
    std::vector<TensorRef> outputs;
    const Graph& graph = program_->graph();
    for (std::size_t i = 0; i < operands.size(); ++i)
      inputs.push_back(host_tensor(operands[i].data(), graph.type(graph.inputs()[i].value)));
    // More than none each: null is no memory.
    for (const Type& type : results) out.emplace_back(bytes_of(type) + 64);
    for (std::size_t i = 0; i < results.size(); ++i)
      outputs.push_back(host_tensor(out[i].data(), results[i]));
    program_->run(inputs, outputs, *arena_);
    queue_->finish();
    for (std::size_t i = 0; i < out.size(); ++i) out[i].resize(bytes_of(results[i]));
    return out;
  }

 private:
  std::unique_ptr<Program> program_;
  std::unique_ptr<Buffer> arena_;
  Queue* queue_;
};

// A kernel that is run several times, in guarded memory, and compared with the lowering.
class ComparedKernel final : public Kernel {
 public:
  ComparedKernel(const NodeView& n, std::unique_ptr<Kernel> kernel, const Compute& compute,
                 std::set<std::string>& ran)
      : name_(n.op().name),
        place_(n.origin() ? " (" + to_string(*n.origin()) + ")" : ""),
        kernel_(std::move(kernel)),
        compute_(compute),
        ran_(ran),
        lowering_(n, *compute.backend) {
    for (int i = 0; i < n.num_inputs(); ++i) {
      is_there_.push_back(n.has(i));
      if (n.has(i)) operand_types_.push_back(n.type(i));
    }
    for (int i = 0; i < n.num_outputs(); ++i) result_types_.push_back(n.out_type(i));
    const ops::CustomOp& op = ops::custom_of(n.op());
    if (op.inputs.size() > op.count() && op.inputs[op.count()].name == "count" &&
        n.has(static_cast<int>(op.count())))
      count_at_ = static_cast<int>(
          std::count(is_there_.begin(), is_there_.begin() + std::ptrdiff_t(op.count()), true));
    num_outputs_ = op.num_outputs;
    const bool is_gradient =
        !(op.inputs.size() > op.start() && op.inputs[op.start()].name == "start");
    is_gradient_ = is_gradient;
    if (is_gradient) {
      first_cotangent_ = num_present(op.first_cotangent());
      reads_outputs_ = num_present(op.first_output()) != first_cotangent_;
    }
  }

  void run(const KernelArgs& args) override {
    ran_.insert(name_);
    std::vector<Bytes> operands;
    for (std::size_t i = 0, next = 0; i < is_there_.size(); ++i) {
      if (!is_there_[i]) continue;
      operands.push_back(contents(args.inputs[i], operand_types_[next++]));
    }
    const std::vector<Bytes> results = once(operands, 1, std::byte{0xff});
    if (!is_on_device()) once(operands, 1, std::byte{0xff});  // see look_at_rest()
    expect_same(results, once(operands, 1, std::byte{0x11}),
                "gives other bits if its unwritten memory has other bytes; it "
                "reads beyond its inputs, or uninitialised memory");
    // Threads of a device run in another order each time, so the two runs above are enough.
    const int most_threads = is_on_device() ? 1 : 3;
    for (int threads = 2; threads <= most_threads; ++threads)
      for (int time = 0; time < 2; ++time)
        expect_same(results, once(operands, threads, std::byte{0xff}),
                    fmt::format("gives other bits with {} threads than with one", threads));
    compute_.set_threads(ComparingBackend::kMostThreads);
    compare(operands, results);
    if (is_small(operands)) {
      compare_changed(operands);
      for (std::size_t i = 0; i < operands.size(); ++i) compare_without_number(operands, i);
    }
    for (std::size_t i = 0; i < results.size(); ++i)
      if (args.outputs[i]) put(args.outputs[i], results[i], result_types_[i]);
    // Programs are compiled for so many threads.
    compute_.set_threads(ComparingBackend::kMostThreads);
  }

 private:
  template <typename... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> format, Args&&... args) const {
    fail("the kernel of op '{}' for {}{} {}", name_,
         operand_types_.empty() ? "nothing" : to_string(operand_types_.front()), place_,
         fmt::format(format, std::forward<Args>(args)...));
  }

  bool is_on_device() const { return !compute_.backend->reaches(MemoryKind::host); }
  Queue& queue() const { return compute_.backend->context().queue(); }

  // A tensor of a running program. Its memory on a device belongs to a buffer that is not known
  // here.
  class Place final : public Buffer {
   public:
    Place(MemoryKind kind, const void* at, std::size_t bytes) : Buffer(kind, at, bytes) {}
  };
  Place place_at(const void* at, const Type& type) const {
    return {is_on_device() ? MemoryKind::device : MemoryKind::host, at, bytes_of(type)};
  }
  // Waits for the work before this kernel.
  Bytes contents(const void* at, const Type& type) const {
    Bytes out(bytes_of(type));
    const Place place = place_at(at, type);
    queue().copy(host_tensor(out.data(), type), ConstTensorRef(place, 0, type));
    queue().finish();
    return out;
  }
  void put(void* at, const Bytes& bytes, const Type& type) const {
    Place place = place_at(at, type);
    queue().copy(TensorRef(place, 0, type), host_tensor(bytes.data(), type));
    queue().finish();
  }

  std::vector<Bytes> once(const std::vector<Bytes>& operands, int threads, std::byte fill) {
    compute_.set_threads(threads);
    const Backend& backend = *compute_.backend;
    std::vector<GuardedBuffer> in, out;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (const Bytes& operand : operands) {
      in.emplace_back(operand.size(), fill, backend);
      std::ranges::copy(operand, in.back().data());
    }
    for (std::size_t i = 0, next = 0; i < is_there_.size(); ++i)
      inputs.push_back(is_there_[i] ? in[next++].place() : nullptr);
    for (const Type& type : result_types_) {
      out.emplace_back(bytes_of(type), fill, backend);
      outputs.push_back(out.back().place());
    }
    // Aligned, with a guard zone on both sides.
    GuardedBuffer workspace(kernel_->workspace_bytes() + 64, fill, backend);
    const std::size_t to_align =
        (64 - reinterpret_cast<std::uintptr_t>(workspace.place()) % 64) % 64;
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
      queue().enqueue(*kernel_, {inputs, outputs, workspace.place() + to_align});
      const std::size_t bytes_after = used_bytes();
      return bytes_after > bytes_before ? bytes_after - bytes_before : 0;
    };
    std::size_t kept = run_once();
    // The driver of a device starts threads and keeps memory.
    if (threads == 1 && !is_on_device()) {
      // Memory that the first run freed counts as used until the next allocation of its size.
      if (kept > 0) kept = run_once();
      look_at_rest(before, kept);
    }
    each([](GuardedBuffer& buffer) { buffer.from_device(); });
    queue().finish();
    std::vector<Bytes> results;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!out[i].is_intact()) wrong("writes beyond result {}, {}", i, to_string(result_types_[i]));
      results.push_back(out[i].contents());
    }
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!in[i].is_intact()) wrong("writes beyond input {}, {}", i, to_string(operand_types_[i]));
      if (in[i].contents() != operands[i])
        wrong("changes its input {}, {}", i, to_string(operand_types_[i]));
    }
    const Bytes all = workspace.contents();
    const auto untouched = [&](std::byte b) { return b == fill; };
    if (!workspace.is_intact() ||
        !std::all_of(all.begin(), all.begin() + std::ptrdiff_t(to_align), untouched) ||
        !std::all_of(all.begin() + std::ptrdiff_t(to_align + kernel_->workspace_bytes()), all.end(),
                     untouched))
      wrong("writes beyond its workspace of {} bytes", kernel_->workspace_bytes());
    return results;
  }

  // Called after a run by one thread, which kept `kept` bytes of the heap. The first run may
  // prepare constants.
  void look_at_rest(const registry::ProcessCounts& before, std::size_t kept) {
    const registry::ProcessCounts after;
    if (has_child_processes()) wrong("starts a process; it must not start any (C-10)");
    if (after.threads > before.threads)
      wrong("starts {} thread(s); only parallel_for may share work (C-10)",
            after.threads - before.threads);
    if (after.descriptors > before.descriptors)
      wrong("leaves {} file(s) open (C-10)", after.descriptors - before.descriptors);
    if (kept > 0 && num_runs_ > 0 && ++num_keeping_runs_ > 1)
      wrong("keeps {} bytes of memory in each run; it must free its memory, or use workspace",
            kept);
    ++num_runs_;
  }

  // Clears results for padding, which are never read.
  void forget_padding(std::vector<float>& values, std::size_t result,
                      const std::vector<Bytes>& operands) const {
    if (count_at_ < 0 || result >= num_outputs_) return;
    const Type &type = result_types_[result], &first_input = operand_types_.front();
    // A result with tokens has the token dim of the first input.
    if (type.ndim() < 2 || first_input.ndim() < 2 || type.dim(1) != first_input.dim(1)) return;
    const Bytes& counts = operands[static_cast<std::size_t>(count_at_)];
    const std::int64_t batch = type.dim(0), tokens = type.dim(1);
    const std::size_t width = values.size() / static_cast<std::size_t>(batch * tokens);
    for (std::int64_t b = 0; b < batch; ++b) {
      std::int32_t count = 0;
      std::memcpy(&count, counts.data() + 4 * b, 4);
      const auto first = values.begin() + std::ptrdiff_t(width) * (b * tokens + count);
      std::fill_n(first, std::ptrdiff_t(width) * (tokens - count), 0.0f);
    }
  }

  std::vector<std::vector<float>> values(const std::vector<Bytes>& results,
                                         const std::vector<Bytes>& operands) const {
    std::vector<std::vector<float>> out;
    for (std::size_t i = 0; i < results.size(); ++i) {
      out.push_back(numbers(results[i], result_types_[i].dtype));
      forget_padding(out.back(), i, operands);
    }
    return out;
  }

  // The number of present operands before operand `i` of the op.
  std::size_t num_present(std::size_t i) const {
    return static_cast<std::size_t>(
        std::count(is_there_.begin(), is_there_.begin() + std::ptrdiff_t(i), true));
  }

  // False for a run over very many rows, which is compared once.
  static bool is_small(const std::vector<Bytes>& operands) {
    constexpr std::size_t kMostBytes = 1 << 20;
    return std::ranges::all_of(operands, [](const Bytes& b) { return b.size() <= kMostBytes; });
  }

  void expect_same(const std::vector<Bytes>& a, const std::vector<Bytes>& b,
                   const std::string& what) const {
    if (a != b) wrong("{}", what);
  }

  // Compares with the lowering up to rounding: one of the type, and eight times the effect of
  // rounding the inputs.
  void compare(const std::vector<Bytes>& operands, const std::vector<Bytes>& results,
               const std::string& with = {}) {
    std::vector<Bytes> disturbed = operands;
    for (std::size_t i = 0; i < disturbed.size(); ++i)
      disturb(disturbed[i], operand_types_[i].dtype);
    auto got = values(results, operands),
         want = values(lowering_.run(operands, result_types_), operands),
         near = values(lowering_.run(disturbed, result_types_), operands);
    const bool is_coarse =
        std::ranges::any_of(operand_types_, [](const Type& t) { return t.dtype == DType::bf16; });
    for (std::size_t i = 0; i < got.size(); ++i) {
      // With changed inputs the lowering may overflow where the kernel does not.
      if (!with.empty()) keep_finite(got[i], want[i], near[i]);
      if (is_infinite(operands)) keep_finite(want[i], got[i], near[i]);
      const double rounding = is_coarse ? 1.0 / 64 : 1e-5;
      const double allowed =
          std::max(rounding * largest_magnitude(want[i]), 8 * difference(near[i], want[i]));
      const double found = difference(got[i], want[i]);
      if (!(found <= allowed))
        wrong("differs from the lowering by {:.2g} in result {}, {}{}; {:.2g} is rounding", found,
              i, to_string(result_types_[i]), with, allowed);
    }
  }

  // With infinite inputs a kernel may give infinities where its lowering happens not to.
  bool is_infinite(const std::vector<Bytes>& operands) const {
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (is_compared(i) && std::ranges::any_of(numbers(operands[i], operand_types_[i].dtype),
                                                [](float x) { return std::isinf(x); }))
        return true;
    return false;
  }

  // Clears elements that are not finite in the second or the third.
  static void keep_finite(std::vector<float>& first, std::vector<float>& second,
                          std::vector<float>& third) {
    for (std::size_t e = 0; e < second.size(); ++e)
      if (!std::isfinite(second[e]) || !std::isfinite(third[e]))
        first[e] = second[e] = third[e] = 0;
  }

  // Inputs that small models do not have: large, zero and infinite ones, and gradients of all
  // tokens. A kernel that reads its outputs gets the right ones only for the right inputs.
  void compare_changed(const std::vector<Bytes>& operands) {
    const std::size_t first = reads_outputs_ ? first_cotangent_ : 0;
    const auto with = [&](std::size_t begin, const std::string& what, auto&& change) {
      std::vector<Bytes> changed = operands;
      for (std::size_t i = begin; i < changed.size(); ++i)
        if (is_compared(i)) change_numbers(changed[i], operand_types_[i].dtype, change);
      compare(changed, once(changed, 1, std::byte{0xff}), what);
    };
    const float by = kLargeInput * std::max(1.0f, 1 / largest_number(operands));
    with(first, fmt::format(" for inputs {:.0f} times as large", by), [&](float& x) { x *= by; });
    with(first, " for inputs of zeros", [](float& x) { x = 0; });
    if (first_cotangent_ < operands.size()) {
      std::minstd_rand random(7);
      std::normal_distribution<float> normal;
      with(first_cotangent_, " for random gradients of its outputs",
           [&](float& x) { x = normal(random); });
    }
    // Gradients where a function is not finite are a matter of convention.
    for (std::size_t i = 0; i < operands.size() && !is_gradient_; ++i) {
      if (!is_compared(i) || operands[i].empty()) continue;
      std::vector<Bytes> changed = operands;
      bool is_first = true;
      change_numbers(changed[i], operand_types_[i].dtype, [&](float& x) {
        if (is_first) x = std::numeric_limits<float>::infinity();
        is_first = false;
      });
      compare(changed, once(changed, 1, std::byte{0xff}),
              fmt::format(" for an infinite element of input {}", i));
    }
  }

  // At least one of the inputs becomes so large.
  static constexpr float kLargeInput = 100;
  float largest_number(const std::vector<Bytes>& operands) const {
    float out = std::numeric_limits<float>::min();
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (is_compared(i))
        for (const float x : numbers(operands[i], operand_types_[i].dtype))
          out = std::max(out, std::abs(x));
    return out;
  }

  bool is_compared(std::size_t operand) const {
    const DType dtype = operand_types_[operand].dtype;
    return dtype == DType::f32 || dtype == DType::bf16;
  }

  // With NaN as the first element of an operand: if the lowering gives NaN, a result of the kernel
  // must contain NaN, or training would not notice it. One result is enough: a kernel may skip an
  // element that is not above 0 in one gradient.
  void compare_without_number(std::vector<Bytes> operands, std::size_t operand) {
    if (!is_compared(operand) || operands[operand].empty()) return;
    bool is_first = true;
    change_numbers(operands[operand], operand_types_[operand].dtype, [&](float& x) {
      if (is_first) x = std::numeric_limits<float>::quiet_NaN();
      is_first = false;
    });
    const auto got = values(once(operands, 1, std::byte{0xff}), operands),
               want = values(lowering_.run(operands, result_types_), operands);
    for (const auto& result : got)
      if (std::ranges::any_of(result, [](float v) { return !std::isfinite(v); })) return;
    for (std::size_t i = 0; i < got.size(); ++i)
      for (std::size_t j = 0; j < got[i].size(); ++j)
        if (std::isnan(want[i][j]))
          wrong("hides NaN of input {}: it gives {} in result {}, {}, and its lowering gives NaN",
                operand, got[i][j], i, to_string(result_types_[i]));
  }

  const std::string name_, place_;
  const std::unique_ptr<Kernel> kernel_;
  const Compute& compute_;
  std::set<std::string>& ran_;
  Lowering lowering_;
  std::vector<bool> is_there_;
  std::vector<Type> operand_types_, result_types_;
  std::size_t num_outputs_ = 0;
  int count_at_ = -1;                              // among the present operands
  std::size_t first_cotangent_ = ~std::size_t{0};  // likewise, of a gradient
  bool is_gradient_ = false, reads_outputs_ = false;
  int num_runs_ = 0, num_keeping_runs_ = 0;  // by one thread
};

ComparingBackend* current = nullptr;  // choices of kernels are plain functions

}  // namespace

ComparingBackend::ComparingBackend(const Compute& compute) : compute_(compute) {
  compute.set_threads(kMostThreads);
  current = this;
}
ComparingBackend::~ComparingBackend() { current = nullptr; }

std::span<const KernelChoice> ComparingBackend::kernels(const Op& op) const {
  static constexpr KernelChoice kCompared[] = {{"compared", supports, make, 0, true}};
  return ops::is_custom(op) ? kCompared : inner().kernels(op);
}

Verdict ComparingBackend::supports(const NodeView& n) {
  return current->inner().kernels(n.op()).front().supports(n);
}
std::unique_ptr<Kernel> ComparingBackend::make(const NodeView& n, Context& context) {
  return std::make_unique<ComparedKernel>(n,
                                          current->inner().kernels(n.op()).front().make(n, context),
                                          current->compute_, current->ran_);
}

}  // namespace lamina::conformance
