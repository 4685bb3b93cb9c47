// Groups of nodes that one kernel call computes. The backend here computes the nodes of a group in
// any order, so that a group of nodes that depend on each other gives wrong numbers.
#include "runtime/node_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "ops/op.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

class ShuffledGroup final : public KernelGroup {
 public:
  ShuffledGroup(const NodeView& node, Context& context) : context_(context) { add(node); }

  bool add(const NodeView& node) override {
    if (members_.size() == most) return false;
    const KernelChoice* choice = choose_kernel(cpu::cpu_backend(), node);
    members_.push_back({choice->make(node, context_), static_cast<std::size_t>(node.num_inputs()),
                        static_cast<std::size_t>(node.num_outputs())});
    return true;
  }
  std::size_t workspace_bytes() const override {
    return members_.size() * sizeof(int);  // each member writes its own number there
  }
  void run(const KernelArgs& args) override {
    std::vector<KernelArgs> calls;
    std::size_t input = 0, output = 0;
    for (const Member& member : members_) {
      calls.push_back({.inputs = args.inputs.subspan(input, member.num_inputs),
                       .outputs = args.outputs.subspan(output, member.num_outputs),
                       .queue = args.queue});
      input += member.num_inputs;
      output += member.num_outputs;
    }
    EXPECT_EQ(input, args.inputs.size());
    EXPECT_EQ(output, args.outputs.size());
    std::vector<std::size_t> order(members_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    int* const numbers = reinterpret_cast<int*>(args.workspace);
    for (const std::size_t i : order) numbers[i] = static_cast<int>(i);
    for (const std::size_t i : order) members_[i].kernel->run(calls[i]);
    for (const std::size_t i : order) EXPECT_EQ(numbers[i], static_cast<int>(i));
    calls_of_size[members_.size()] += 1;
  }
  std::string detail() const override {
    return members_.size() == 1 ? "" : fmt::format("of {} tensors", members_.size());
  }

  static inline std::mt19937 random{1};
  static inline std::size_t most = 100;
  static inline std::map<std::size_t, int> calls_of_size;  // by the nodes of a call

 private:
  struct Member {
    std::unique_ptr<Kernel> kernel;
    std::size_t num_inputs, num_outputs;
  };
  Context& context_;
  std::vector<Member> members_;
};

// The CPU, with maps in groups.
class GroupingBackend final : public Backend {
 public:
  std::string_view name() const override { return "grouping"; }
  std::span<const KernelChoice> kernels(const Op& op) const override {
    static constexpr KernelChoice kShuffled[] = {
        {"shuffled", [](const NodeView&) { return Verdict::yes(); },
         [](const NodeView& node, Context& context) -> std::unique_ptr<Kernel> {
           return std::make_unique<ShuffledGroup>(node, context);
         },
         in_place_of(0)}};
    return op.def->elementwise ? kShuffled : cpu_.kernels(op);
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

const Type kSix{DType::f32, {6}, {}};

// The sizes of the groups of a graph's program, in order.
std::vector<std::size_t> groups_in(const Graph& graph) {
  ShuffledGroup::calls_of_size.clear();
  std::vector<Array> inputs;
  for (const GraphInput& input : graph.inputs()) inputs.push_back(zeros(graph.type(input.value)));
  run_unoptimized(graph, inputs, GroupingBackend());
  std::vector<std::size_t> out;
  for (const auto& [size, calls] : ShuffledGroup::calls_of_size) out.insert(out.end(), calls, size);
  return out;
}

TEST(NodeGroups, Example) {
  Graph g;
  for (const char* name : {"a", "b", "c"}) g.add_output("y", ops::neg(g.add_input(name, kSix)));
  Program program(g, GroupingBackend());
  EXPECT_THAT(program.describe(),
              ::testing::StartsWith("neg                shuffled of 3 tensors  f32[6] at y\n"
                                    "neg                in the same call       f32[6] at y\n"
                                    "neg                in the same call       f32[6] at y\n"));
  program.set_profiling(true);
  run(program, cpu::cpu_backend(), {zeros(kSix), zeros(kSix), zeros(kSix)});
  EXPECT_THAT(program.profile(), ::testing::HasSubstr("1 calls  neg                shuffled of 3 "
                                                      "tensors f32[6] and 2 more\n"));
}

TEST(NodeGroups, MayHaveViewsBetween) {
  Graph g;
  for (const char* name : {"a", "b", "c"}) {
    Tensor x = ops::reshape(g.add_input(name, kSix), {2, 3});
    g.add_output("y", ops::reshape(ops::neg(x), {3, 2}));
  }
  EXPECT_EQ(groups_in(g), std::vector<std::size_t>{3});
}

TEST(NodeGroups, EndAtAnotherOp) {
  Graph g;
  for (int i = 0; i < 2; ++i) g.add_output("y", ops::neg(g.add_input("x", kSix)));
  g.add_output("y", ops::exp(g.add_input("x", kSix)));
  g.add_output("y", ops::neg(g.add_input("x", kSix)));
  EXPECT_EQ(groups_in(g), (std::vector<std::size_t>{1, 1, 2}));
}

TEST(NodeGroups, EndAtANodeThatTheKernelRefuses) {
  ShuffledGroup::most = 2;
  Graph g;
  for (int i = 0; i < 5; ++i) g.add_output("y", ops::neg(g.add_input("x", kSix)));
  EXPECT_EQ(groups_in(g), (std::vector<std::size_t>{1, 2, 2}));
  ShuffledGroup::most = 100;
}

TEST(NodeGroups, EndAtANodeThatNeedsAResult) {
  Graph g;
  Tensor x = g.add_input("x", kSix);
  Tensor y = ops::neg(x);
  g.add_output("y", ops::neg(y));
  g.add_output("z", ops::neg(g.add_input("z", kSix)));
  EXPECT_EQ(groups_in(g), (std::vector<std::size_t>{1, 2}));
}

// The first operand may be overwritten by the result, the second one may not.
TEST(NodeGroups, EndAtANodeThatMayOverwriteAnOperandOfTheGroup) {
  Graph g;
  Tensor a = g.add_input("a", kSix), b = g.add_input("b", kSix), c = g.add_input("c", kSix);
  g.add_output("y", a + c);
  g.add_output("y", b + c);
  g.add_output("y", c + b);
  EXPECT_EQ(groups_in(g), (std::vector<std::size_t>{1, 2}));
}

// A number of all nodes, which no result can replace.
TEST(NodeGroups, MayShareAnOperandOfAnotherType) {
  Graph g;
  Tensor number = g.add_input("number", {DType::f32, {}, {}});
  for (const char* name : {"a", "b"}) g.add_output("y", number * g.add_input(name, kSix));
  EXPECT_EQ(groups_in(g), std::vector<std::size_t>{2});
}

// Results of 30 MiB each, which are no outputs.
TEST(NodeGroups, EndBeforeTheirResultsNeedMuchMemory) {
  Graph g;
  std::vector<Tensor> made;
  for (int i = 0; i < 3; ++i) {
    Tensor x = g.add_input("x", {DType::f32, {30 << 20}, {}});
    made.push_back(ops::less(x, x));
  }
  for (Tensor y : made) g.add_output("y", ops::copy(ops::cast(y, DType::f32)));
  EXPECT_THAT(Program(g, GroupingBackend()).describe(),
              ::testing::StartsWith("less               shuffled of 2 tensors"));
}

// A watcher sees each node of a group.
TEST(NodeGroups, AreWatchedByNode) {
  struct Watched : Watcher {
    std::vector<NodeId> nodes;
    std::vector<double> operands, results;
    void enter(const Graph&, NodeId, std::int64_t) override {}
    void leave() override {}
    void starts(const Graph&, NodeId, std::span<const ConstTensorRef> of) override {
      operands.push_back(static_cast<double>(host_view<float>(of[0])[0]));
    }
    void ran(const Graph&, NodeId node, std::span<const TensorRef> of) override {
      nodes.push_back(node);
      results.push_back(static_cast<double>(host_view<float>(of[0])[0]));
    }
  } watched;
  Graph g;
  for (const char* name : {"a", "b"}) g.add_output("y", ops::neg(g.add_input(name, kSix)));
  Program program(g, GroupingBackend());
  program.watch(&watched);
  run(program, cpu::cpu_backend(),
      {array(kSix, {1, 1, 1, 1, 1, 1}), array(kSix, {2, 2, 2, 2, 2, 2})});
  EXPECT_EQ(watched.nodes, (std::vector<NodeId>{0, 1}));
  EXPECT_EQ(watched.operands, (Doubles{1, 2}));
  EXPECT_EQ(watched.results, (Doubles{-1, -2}));
}

// Maps over earlier values and views of them, with results that overwrite inputs.
Graph random_graph(std::mt19937& random) {
  const auto any = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
  };
  Graph g;
  std::vector<Tensor> values;
  for (std::size_t i = 0; i < 8; ++i) values.push_back(g.add_input("x", kSix));
  Tensor read = values[0];
  for (std::size_t n = 0; n < 40; ++n) {
    // Runs of one op, mostly of earlier values.
    const std::size_t recent = std::min<std::size_t>(values.size(), 12);
    const auto value = [&] { return values[values.size() - 1 - any(recent)]; };
    Tensor made;
    if (n / 5 % 2 == 0)
      made = ops::scale(value(), 0.5 + 0.1 * static_cast<double>(any(9)));
    else
      made = value() + value();
    if (any(4) == 0) made = ops::reshape(ops::reshape(made, {2, 3}), {6});
    values.push_back(made);
    if (any(5) == 0) read = read + made;
  }
  g.add_output("read", read);
  g.add_output("x", values.back(), 0);
  g.add_output("last", values[values.size() - 2]);
  return g;
}

TEST(NodeGroups, ComputeWhatSingleNodesCompute) {
  std::mt19937 random(7);
  std::vector<Array> inputs;
  for (double first = 0; first < 8; ++first)
    inputs.push_back(array(kSix, {first, 2, 7, 1, 8, 2 - first}));
  ShuffledGroup::calls_of_size.clear();
  for (int i = 0; i < 300; ++i) {
    const Graph graph = random_graph(random);
    const auto got = run_unoptimized(graph, inputs, GroupingBackend());
    const auto want = run_unoptimized(graph, inputs);
    for (std::size_t o = 0; o < want.size(); ++o)
      ASSERT_EQ(to_doubles(got[o]), to_doubles(want[o])) << "graph " << i << ", output " << o;
  }
  EXPECT_GE(ShuffledGroup::calls_of_size.rbegin()->first, 3u);
}

}  // namespace
}  // namespace lamina::testing
