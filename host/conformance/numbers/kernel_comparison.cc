#include "conformance/numbers/kernel_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "conformance/numbers/compare.h"
#include "conformance/numbers/guarded_runs.h"
#include "graph/rewrite.h"
#include "ops/custom.h"
#include "program/compile.h"

namespace lamina::conformance {
namespace {

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

  std::vector<TensorBytes> run(const std::vector<TensorBytes>& operands,
                               const std::vector<Type>& results) {
    std::vector<TensorBytes> out;
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
      : runs_(n, std::move(kernel), compute),
        compute_(compute),
        ran_(ran),
        lowering_(n, *compute.backend) {
    const ops::CustomOp& op = ops::custom_of(n.op());
    if (op.inputs.size() > op.count() && op.inputs[op.count()].name == "count" &&
        n.has(static_cast<int>(op.count())))
      count_at_ = static_cast<int>(num_present(op.count()));
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
    ran_.insert(runs_.op());
    std::vector<TensorBytes> operands;
    for (std::size_t i = 0, next = 0; i < runs_.is_given().size(); ++i) {
      if (!runs_.is_given()[i]) continue;
      operands.push_back(runs_.contents(args.inputs[i], operand_types_[next++]));
    }
    const std::vector<TensorBytes> results = once(operands, 1, std::byte{0xff});
    // A kernel may keep memory in its first runs.
    if (!runs_.is_on_device()) once(operands, 1, std::byte{0xff});
    expect_same(results, once(operands, 1, std::byte{0x11}),
                "gives other bits if its unwritten memory has other bytes; it "
                "reads beyond its inputs, or uninitialised memory");
    // Threads of a device run in another order each time, so the two runs above are enough.
    const int most_threads = runs_.is_on_device() ? 1 : 3;
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
      if (args.outputs[i]) runs_.put(args.outputs[i], results[i], result_types_[i]);
    // Programs are compiled for this number of threads.
    compute_.set_threads(ComparingBackend::kMostThreads);
  }

 private:
  std::vector<TensorBytes> once(const std::vector<TensorBytes>& operands, int threads,
                                std::byte fill) {
    return runs_.run(operands, threads, fill);
  }

  // Clears results for padding, which are never read.
  void forget_padding(std::vector<float>& values, std::size_t result,
                      const std::vector<TensorBytes>& operands) const {
    if (count_at_ < 0 || result >= num_outputs_) return;
    const Type &type = result_types_[result], &first_input = operand_types_.front();
    // A result with tokens has the token dim of the first input.
    if (type.ndim() < 2 || first_input.ndim() < 2 || type.dim(1) != first_input.dim(1)) return;
    const TensorBytes& counts = operands[static_cast<std::size_t>(count_at_)];
    const std::int64_t batch = type.dim(0), tokens = type.dim(1);
    const std::size_t width = values.size() / static_cast<std::size_t>(batch * tokens);
    for (std::int64_t b = 0; b < batch; ++b) {
      std::int32_t count = 0;
      std::memcpy(&count, counts.data() + 4 * b, 4);
      const auto first = values.begin() + std::ptrdiff_t(width) * (b * tokens + count);
      std::fill_n(first, std::ptrdiff_t(width) * (tokens - count), 0.0f);
    }
  }

  std::vector<std::vector<float>> values(const std::vector<TensorBytes>& results,
                                         const std::vector<TensorBytes>& operands) const {
    std::vector<std::vector<float>> out;
    for (std::size_t i = 0; i < results.size(); ++i) {
      out.push_back(numbers(results[i], result_types_[i].dtype));
      forget_padding(out.back(), i, operands);
    }
    return out;
  }

  // The number of present operands before operand `i` of the op.
  std::size_t num_present(std::size_t i) const {
    const std::vector<bool>& there = runs_.is_given();
    return static_cast<std::size_t>(
        std::count(there.begin(), there.begin() + std::ptrdiff_t(i), true));
  }

  // False for a run over very many rows, which is compared once.
  static bool is_small(const std::vector<TensorBytes>& operands) {
    constexpr std::size_t kMostBytes = 1 << 20;
    return std::ranges::all_of(operands,
                               [](const TensorBytes& b) { return b.size() <= kMostBytes; });
  }

  void expect_same(const std::vector<TensorBytes>& a, const std::vector<TensorBytes>& b,
                   const std::string& what) const {
    if (a != b) runs_.wrong("{}", what);
  }

  // The number of input elements per element of a result.
  double num_summed(const Type& result) const {
    std::int64_t most = 0;
    for (const Type& type : operand_types_) most = std::max(most, type.num_elements());
    return static_cast<double>(most) /
           static_cast<double>(std::max<std::int64_t>(result.num_elements(), 1));
  }

  // Compares with the lowering up to rounding: one of the type, and eight times the effect of
  // rounding the inputs. Sums of very many elements, one after the other, round more than the
  // lowering's: by the root of their number.
  void compare(const std::vector<TensorBytes>& operands, const std::vector<TensorBytes>& results,
               const std::string& with = {}) {
    std::vector<TensorBytes> disturbed = operands;
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
      const double longer = std::max(1.0, std::sqrt(num_summed(result_types_[i]) / 256));
      const double allowed = std::max(rounding * largest_magnitude(want[i]),
                                      8 * longer * difference(near[i], want[i]));
      const double found = difference(got[i], want[i]);
      if (!(found <= allowed))
        runs_.wrong(
            "differs from the lowering by {:.2g} in result {}, {}{}; rounding is at most {:.2g}",
            found, i, to_string(result_types_[i]), with, allowed);
    }
  }

  // With infinite inputs a kernel may give infinities where its lowering happens not to.
  bool is_infinite(const std::vector<TensorBytes>& operands) const {
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
  void compare_changed(const std::vector<TensorBytes>& operands) {
    const std::size_t first = reads_outputs_ ? first_cotangent_ : 0;
    const auto with = [&](std::size_t begin, const std::string& what, auto&& change) {
      std::vector<TensorBytes> changed = operands;
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
      std::vector<TensorBytes> changed = operands;
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
  float largest_number(const std::vector<TensorBytes>& operands) const {
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
  void compare_without_number(std::vector<TensorBytes> operands, std::size_t operand) {
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
          runs_.wrong(
              "hides NaN of input {}: it gives {} in result {}, {}, and its lowering gives NaN",
              operand, got[i][j], i, to_string(result_types_[i]));
  }

  GuardedRuns runs_;
  const Compute& compute_;
  std::set<std::string>& ran_;
  Lowering lowering_;
  const std::vector<Type>& operand_types_ = runs_.operand_types();
  const std::vector<Type>& result_types_ = runs_.result_types();
  std::size_t num_outputs_ = 0;
  int count_at_ = -1;                              // among the present operands
  std::size_t first_cotangent_ = ~std::size_t{0};  // likewise, of a gradient
  bool is_gradient_ = false, reads_outputs_ = false;
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
