// Counters of kernels: part of the arena, zero before each call, whatever the arena contained.
#include "runtime/counting_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "ops/op.h"
#include "runtime/host_access.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

// neg by the CPU; checks its counters, uses them, and zeroes them.
class CountedNeg final : public CountingKernel {
 public:
  explicit CountedNeg(std::unique_ptr<Kernel> neg) : neg_(std::move(neg)) {}
  std::size_t counter_bytes() const override { return num_bytes; }
  void run(const KernelArgs& args) override {
    ASSERT_EQ(args.outputs.size(), 2u);
    auto* const counters = static_cast<std::byte*>(args.outputs.back());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(counters) % 64, 0u);
    const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
    EXPECT_TRUE(std::all_of(counters, counters + num_bytes, is_zero)) << "call " << num_calls;
    std::memset(counters, 0x55, num_bytes);
    neg_->run({.inputs = args.inputs, .outputs = args.outputs.first(1), .queue = args.queue});
    std::memset(counters, 0, num_bytes);
    ++num_calls;
  }

  static inline int num_calls = 0;
  static inline std::size_t num_bytes = 40;

 private:
  std::unique_ptr<Kernel> neg_;
};

// The CPU, with a neg that counts.
class CountingBackend final : public Backend {
 public:
  std::string_view name() const override { return "counting"; }
  std::span<const KernelChoice> kernels(const Op& op) const override {
    static constexpr KernelChoice kCounted[] = {
        {"counted", [](const NodeView&) { return Verdict::yes(); },
         [](const NodeView& node, Context& context) -> std::unique_ptr<Kernel> {
           const KernelChoice* of_cpu = choose_kernel(cpu::cpu_backend(), node);
           return std::make_unique<CountedNeg>(of_cpu->make(node, context));
         }}};
    return op.name == "neg" ? kCounted : cpu_.kernels(op);
  }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) const override {
    return cpu_.allocate(bytes);
  }
  std::unique_ptr<Buffer> allocate_for_copies(std::size_t bytes) const override {
    return cpu_.allocate_for_copies(bytes);
  }
  Context& context() const override { return cpu_.context(); }
  bool reaches(MemoryKind kind) const override { return cpu_.reaches(kind); }

 private:
  const Backend& cpu_ = cpu::cpu_backend();
};

const Type kThree{DType::f32, {3}, {}};

// Runs a program of one input and one output twice; before, its arena contains `garbage`.
std::vector<float> run_in_garbage(Program& program, const CountingBackend& backend,
                                  std::byte garbage) {
  std::vector<float> x{1, 2, 3}, y(3);
  const ConstTensorRef in = host_tensor(x.data(), kThree);
  const TensorRef out = host_tensor(y.data(), kThree);
  const auto arena = backend.allocate(program.arena_bytes());
  for (int i = 0; i < 2; ++i) {
    std::memset(reinterpret_cast<void*>(arena->address()), std::to_integer<int>(garbage),
                program.arena_bytes());
    program.run({&in, 1}, {&out, 1}, *arena);
  }
  return y;
}

TEST(CountingKernels, HaveZeroedCountersInTheArena) {
  Graph graph;
  Tensor x = graph.add_input("x", kThree);
  for (int i = 0; i < 3; ++i) x = ops::call("sin", {ops::neg(x)});
  graph.add_output("y", ops::neg(x));
  const CountingBackend backend;
  CountedNeg::num_bytes = 0;
  const Program plain(graph, backend);
  CountedNeg::num_bytes = 40;
  Program program(graph, backend);
  EXPECT_EQ(program.arena_bytes(), plain.arena_bytes() + 4 * 64);
  EXPECT_EQ(program.lower_bound_bytes(), plain.lower_bound_bytes() + 4 * 64);
  EXPECT_EQ(program.unshared_bytes(), plain.unshared_bytes() + 4 * 64);
  const ArenaBlock& block = program.arena_blocks().back();
  EXPECT_EQ(block.bytes, 4u * 64);
  EXPECT_EQ(block.first, 0);
  EXPECT_EQ(block.last, static_cast<int>(program.graph().nodes().size()));
  for (const ArenaBlock& other : program.arena_blocks())
    EXPECT_TRUE(&other == &block || other.offset + other.bytes <= block.offset);
  CountedNeg::num_calls = 0;
  const auto want = run_in_garbage(program, backend, std::byte{0xff});
  EXPECT_EQ(CountedNeg::num_calls, 8);
  EXPECT_EQ(run_in_garbage(program, backend, std::byte{0}), want);
}

// The body's arena is in the workspace of the scan, where other steps write too.
TEST(CountingKernels, OfABodyAreZeroedOncePerScan) {
  auto body = std::make_shared<Graph>();
  body->add_output("y", ops::neg(ops::call("sin", {body->add_input("x", kThree)})));
  Graph graph;
  Tensor x = ops::neg(graph.add_input("x", kThree));
  for (int i = 0; i < 2; ++i) {
    x = ops::scan({x}, {.body = body, .times = 5, .num_carries = 1})[0];
    x = ops::call("sin", {x});
  }
  graph.add_output("y", x);
  const CountingBackend backend;
  Program program(graph, backend);
  CountedNeg::num_calls = 0;
  const auto want = run_in_garbage(program, backend, std::byte{0xff});
  EXPECT_EQ(CountedNeg::num_calls, 22);
  EXPECT_EQ(run_in_garbage(program, backend, std::byte{0}), want);
}

}  // namespace
}  // namespace lamina::testing
