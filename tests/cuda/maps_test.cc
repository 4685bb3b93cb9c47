// Maps on the emulated GPU: the interpreter and the ready-made kernels give one op's bits for a
// chain.
#include <gtest/gtest.h>

#include <cmath>

#include "autodiff/vjp.h"
#include "cuda/gpu.h"
#include "ops/op.h"
#include "ops/registry.h"
#include "passes/pipeline.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

const Backend& map_gpu() { return test_gpu(); }

void expect_same_arrays(const std::vector<Array>& got, const std::vector<Array>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].bytes, want[i].bytes) << i;
}

// A graph of one fused_map: `build` adds the nodes of its body.
template <typename Build>
Graph fused(const std::vector<Type>& operands, const Build& build) {
  auto body = std::make_shared<Graph>();
  Graph graph;
  std::vector<Tensor> inside, outside;
  for (const Type& type : operands) {
    inside.push_back(body->add_input("x", type));
    outside.push_back(graph.add_input("x", type));
  }
  for (Tensor y : build(inside)) body->add_output("y", y);
  const std::pair<std::string_view, AttrValue> attr{"body", std::shared_ptr<const Graph>(body)};
  for (Tensor y : graph.add_node(ops::get("fused_map"), outside, std::span(&attr, 1)))
    graph.add_output("y", y);
  return graph;
}

template <typename Build>
Graph unfused(const std::vector<Type>& operands, const Build& build) {
  Graph graph;
  std::vector<Tensor> inputs;
  for (const Type& type : operands) inputs.push_back(graph.add_input("x", type));
  for (Tensor y : build(inputs)) graph.add_output("y", y);
  return graph;
}

std::vector<Array> random_inputs(const Graph& graph) {
  std::mt19937 random(7);
  std::vector<Array> inputs;
  for (const GraphInput& input : graph.inputs())
    inputs.push_back(random_array(graph.type(input.value), random));
  return inputs;
}

// Runs the only node of the graph by the choice of that name.
std::vector<Array> run_by(std::string_view choice_name, const Graph& graph,
                          const std::vector<Array>& inputs) {
  std::vector<Array> outputs;
  with_node_view(graph, graph.nodes().front(), [&](const NodeView& view) {
    for (const KernelChoice& choice : map_gpu().kernels(view.op())) {
      if (choice.name != choice_name) continue;
      EXPECT_EQ(choice.supports(view).why_not, "");
      const std::unique_ptr<Kernel> kernel = choice.make(view, map_gpu().context());
      Queue& queue = map_gpu().context().queue();
      std::vector<std::unique_ptr<Buffer>> memory;
      std::vector<const void*> in;
      std::vector<void*> out;
      for (const Array& array : inputs) {
        memory.push_back(map_gpu().allocate(array.bytes.size()));
        queue.copy(TensorRef(*memory.back(), 0, array.type), host_tensor(array.data(), array.type));
        in.push_back(reinterpret_cast<const void*>(memory.back()->address()));
      }
      for (const GraphOutput& output : graph.outputs()) {
        outputs.push_back(zeros(graph.type(output.value)));
        memory.push_back(map_gpu().allocate(outputs.back().bytes.size()));
        out.push_back(reinterpret_cast<void*>(memory.back()->address()));
      }
      queue.enqueue(*kernel, {in, out, nullptr, &queue});
      for (std::size_t o = 0; o < outputs.size(); ++o)
        queue.copy(host_tensor(outputs[o].data(), outputs[o].type),
                   TensorRef(*memory[inputs.size() + o], 0, outputs[o].type));
      queue.finish();
    }
  });
  return outputs;
}

class GpuMaps : public ::testing::TestWithParam<DType> {};

TEST_P(GpuMaps, FusedChainHasTheBitsOfItsOpsOneByOne) {
  const std::vector<Type> types = {
      {GetParam(), {5, 37}, {}}, {GetParam(), {5, 37}, {}}, {GetParam(), {37}, {}}};
  const auto chain = [](const std::vector<Tensor>& x) -> std::vector<Tensor> {
    const Tensor y = ops::call("silu", {x[0]}) * x[1] + x[2];
    return {y, -y, ops::cast(ops::cast(y, DType::f32) * ops::cast(x[0], DType::f32), DType::bf16)};
  };
  const Graph one_by_one = unfused(types, chain), together = fused(types, chain);
  const std::vector<Array> inputs = random_inputs(one_by_one);
  expect_same_arrays(run_unoptimized(together, inputs, map_gpu()),
                     run_unoptimized(one_by_one, inputs, map_gpu()));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GpuMaps,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16, DType::f64),
                         [](const auto& test) { return std::string(name(test.param)); });

// Sums and products round alike on all devices.
TEST(GpuMap, ArithmeticHasTheBitsOfTheCpu) {
  for (const DType dtype :
       {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64}) {
    const Graph graph = unfused({{dtype, {3, 4, 11}, {}}, {dtype, {4, 1}, {}}, {dtype, {11}, {}}},
                                [](const std::vector<Tensor>& x) -> std::vector<Tensor> {
                                  return {x[0] * x[1] + x[2] - x[0]};
                                });
    const std::vector<Array> inputs = random_inputs(graph);
    expect_same_arrays(run(graph, inputs, map_gpu()), run(graph, inputs));
  }
}

TEST(GpuMap, CastsHaveTheBitsOfTheCpu) {
  constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64,
                              DType::i32, DType::i64,  DType::u8,  DType::i8,
                              DType::u16, DType::i16,  DType::u32, DType::boolean};
  const std::vector<double> values = {0,     1.9, -1.9, 300,    -70000, 1e20, -1e20, 1e-9,
                                      65504, 127, 128,  -32769, 4.3e9,  2.5,  -0.,   0.1};
  const Array x = array({DType::f64, {16}, {}}, values);
  for (const DType from : kTypes)
    for (const DType to : kTypes) {
      const Graph graph =
          unfused({x.type}, [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
            return {ops::cast(ops::cast(in[0], from), to)};
          });
      expect_same_arrays(run(graph, {x}, map_gpu()), run(graph, {x}));
    }
}

// The bits of a NaN differ between machines; as an integer it is the same number.
TEST(GpuMap, CastsOfNansEqualTheCpus) {
  const Array x = array({DType::f32, {1}, {}}, {NAN});
  for (const DType to :
       {DType::bf16, DType::f16, DType::f64, DType::i32, DType::u8, DType::boolean}) {
    const Graph graph =
        unfused({x.type}, [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
          return {ops::cast(in[0], to)};
        });
    const Array got = run(graph, {x}, map_gpu())[0], want = run(graph, {x})[0];
    if (is_floating(to))
      EXPECT_TRUE(std::isnan(get(got, 0))) << name(to);
    else
      EXPECT_EQ(got.bytes, want.bytes) << name(to);
  }
}

TEST(GpuMap, KeepsManyValuesAtOnce) {
  // x + 1, x + 2, ... summed up from the last.
  const auto build = [](const std::vector<Tensor>& x) -> std::vector<Tensor> {
    std::vector<Tensor> values;
    for (int i = 1; i <= 40; ++i) values.push_back(ops::shift(x[0], i));
    Tensor sum = values.back();
    for (std::size_t i = 39; i-- > 0;) sum = sum + values[i];
    return {sum};
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Graph graph = fused({{dtype, {777}, {}}}, build);
    const std::vector<Array> inputs = random_inputs(graph);
    expect_same_arrays(run_unoptimized(graph, inputs, map_gpu()), run_unoptimized(graph, inputs));
  }
}

TEST(GpuMap, OneWithTooManyStepsIsLowered) {
  const Graph graph =
      fused({{DType::f32, {9}, {}}}, [](std::vector<Tensor> x) -> std::vector<Tensor> {
        for (int i = 0; i < 120; ++i) x[0] = ops::shift(x[0], 1);
        return {x[0]};
      });
  with_node_view(graph, graph.nodes().front(), [&](const NodeView& view) {
    EXPECT_EQ(map_gpu().kernels(view.op())[1].supports(view).why_not,
              "the map has more than 112 steps");
  });
  const std::vector<Array> inputs = random_inputs(graph);
  const Graph lowered = passes::simplify(graph);
  expect_same_arrays(run(lowered, inputs, map_gpu()), run(lowered, inputs));
}

// Operands of a view start at any element.
TEST(GpuMap, OperandsMayStartAnywhere) {
  const Graph graph = unfused({{DType::bf16, {5, 7}, {}}, {DType::bf16, {3, 7}, {}}},
                              [](const std::vector<Tensor>& x) -> std::vector<Tensor> {
                                return {ops::slice(x[0], 0, 1, 3) * x[1]};
                              });
  const std::vector<Array> inputs = random_inputs(graph);
  expect_same_arrays(run(graph, inputs, map_gpu()), run(graph, inputs));
}

// ---- Ready-made kernels ----

// Programs as training has them, each with the kernel that must be found for its only node.
struct ReadyCase {
  std::string kernel;
  std::vector<Type> operands;
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> build;
};

std::vector<ReadyCase> ready_cases(DType dtype) {
  using In = const std::vector<Tensor>&;
  const Type x{dtype, {3, 67}, {}};
  const auto activated = [](const Tensor& gate, const Tensor& up) {
    return ops::call("glu", {gate, up}, {{"activation", std::string("silu")}});
  };
  const auto gradients = [](const Tensor& y, const Tensor& dy, const std::vector<Tensor>& of) {
    return autodiff::vjp(*y.graph, std::span(&y, 1), std::span(&dy, 1), of,
                         autodiff::save_everything());
  };
  std::vector<ReadyCase> cases = {
      {"add", {x, x}, [](In in) -> std::vector<Tensor> { return {in[0] + in[1]}; }},
      {"mul", {x, x}, [](In in) -> std::vector<Tensor> { return {in[0] * in[1]}; }},
      {"scale", {x}, [](In in) -> std::vector<Tensor> { return {ops::scale(in[0], 0.3)}; }},
      {"add_three",
       {x, x, x},
       [](In in) -> std::vector<Tensor> { return {in[0] + in[1] + in[2]}; }},
      {"swiglu", {x, x}, [=](In in) -> std::vector<Tensor> { return {activated(in[0], in[1])}; }},
      {"gelu_tanh",
       {x},
       [](In in) -> std::vector<Tensor> { return {ops::call("gelu_tanh", {in[0]})}; }},
      {"gelu_tanh_grad",
       {x, x},
       [=](In in) -> std::vector<Tensor> {
         return gradients(ops::call("gelu_tanh", {in[0]}), in[1], {in[0]});
       }},
  };
  if (dtype == DType::bf16)
    cases.push_back(
        {"swiglu_grad", {x, x, x}, [=](In in) -> std::vector<Tensor> {
           const std::vector<Tensor> d = gradients(activated(in[0], in[1]), in[2], {in[0], in[1]});
           return {d[1], d[0]};
         }});
  return cases;
}

class ReadyMaps : public ::testing::TestWithParam<DType> {};

TEST_P(ReadyMaps, AreFoundInTheGraphsOfTraining) {
  for (const ReadyCase& c : ready_cases(GetParam())) {
    const Graph graph = optimized_for(map_gpu(), unfused(c.operands, c.build));
    ASSERT_EQ(graph.nodes().size(), 1u) << c.kernel << "\n" << to_string(graph);
    with_node_view(graph, graph.nodes().front(), [&](const NodeView& view) {
      const KernelChoice* choice = choose_kernel(map_gpu(), view);
      ASSERT_TRUE(choice);
      ASSERT_EQ(choice->name, "ready map") << c.kernel << "\n" << to_string(graph);
      EXPECT_EQ(choice->make(view, map_gpu().context())->detail(),
                "ready_" + c.kernel + "_" + std::string(name(GetParam())));
    });
  }
}

TEST_P(ReadyMaps, HaveTheBitsOfTheInterpreter) {
  for (const ReadyCase& c : ready_cases(GetParam())) {
    const Graph graph = optimized_for(map_gpu(), unfused(c.operands, c.build));
    const std::vector<Array> inputs = random_inputs(graph);
    SCOPED_TRACE(c.kernel);
    expect_same_arrays(run_by("ready map", graph, inputs), run_by("map", graph, inputs));
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ReadyMaps, ::testing::Values(DType::f32, DType::bf16),
                         [](const auto& test) { return std::string(name(test.param)); });

// 1 + tanh(u) would lose the digits of small results.
TEST(ReadyGelu, GeluTanhIsAccurateNearZero) {
  const Graph graph =
      unfused({{DType::f32, {5}, {}}}, [](const std::vector<Tensor>& x) -> std::vector<Tensor> {
        return {ops::call("gelu_tanh", {x[0]})};
      });
  const Doubles x = {-1, -4.5, -5, -6, -7};
  const Array y = run_by("ready map", graph, {array({DType::f32, {5}, {}}, x)}).at(0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double angle = std::sqrt(2 / M_PI) * (x[i] + 0.044715 * x[i] * x[i] * x[i]);
    const double want = x[i] / (1 + std::exp(-2 * angle));
    EXPECT_NEAR(get(y, static_cast<std::int64_t>(i)) / want, 1, 2e-5) << x[i];
  }
}

TEST(ReadyCasts, HaveTheBitsOfTheInterpreter) {
  for (const auto& [from, to] : {std::pair{DType::f32, DType::bf16},
                                 {DType::bf16, DType::f32},
                                 {DType::f32, DType::f16},
                                 {DType::f16, DType::f32}}) {
    const DType target = to;
    const Graph graph =
        unfused({{from, {3, 67}, {}}}, [&](const std::vector<Tensor>& x) -> std::vector<Tensor> {
          return {ops::cast(x[0], target)};
        });
    const std::vector<Array> inputs = random_inputs(graph);
    expect_same_arrays(run_by("ready map", graph, inputs), run_by("map", graph, inputs));
  }
}

}  // namespace
}  // namespace lamina::testing
