// Attention by the fake cuDNN. tests/ops/attention_test.cc has the cases.
#include "backends/cuda/emulation/dnn.h"

#include <chrono>
#include <cstdlib>
#include <utility>

#include "backends/cpu/backend.h"
#include "backends/cuda/attention/cudnn_ops.h"
#include "backends/cuda/dnn/attention.h"
#include "backends/cuda/dnn/use.h"
#include "cuda/gpu_memory.h"
#include "ops/calls.h"
#include "ops/operands.h"
#include "ops/registry.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/run_graph.h"
#include "support/small_runs.h"

namespace lamina::testing {
namespace {

using namespace cuda::dnn;
using cuda::emulation::dnn_calls;
using cuda::emulation::fail_next_dnn_call;
namespace in = operand::attention;

// Sets LAMINA_GPU_CUDNN while it exists.
class Switch {
 public:
  explicit Switch(const char* value) { setenv("LAMINA_GPU_CUDNN", value, 1); }
  ~Switch() { unsetenv("LAMINA_GPU_CUDNN"); }
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;
};

// attention of q[1, tokens, 2, 16] over itself, or over a state of `state` tokens.
struct Problem {
  std::int64_t tokens = 130, state = 0;
  DType dtype = DType::bf16;
  bool segments = false;
  std::int64_t width = 16;
  bool sinks = false;  // large ones, so that they take most of the weight

  std::vector<Array> inputs() const {
    const std::int64_t keys = state > 0 ? state : tokens;
    std::vector<Array> out = {random_values({dtype, {1, tokens, 2, width}, {}}, 1),
                              random_values({dtype, {1, keys, 2, width}, {}}, 2),
                              random_values({dtype, {1, keys, 2, width}, {}}, 3)};
    if (segments) {
      Array ids = zeros({DType::i32, {1, tokens}, {}});
      for (std::int64_t t = 0; t + 1 < tokens; ++t) set(ids, t, t < tokens / 2 ? 1 : 2);
      out.push_back(std::move(ids));
    }
    if (state > 0)
      out.push_back(array({DType::i32, {1}, {}}, {static_cast<double>(state - tokens)}));
    if (sinks) out.push_back(array({dtype, {2}, {}}, {3.0, 5.5}));
    return out;
  }
  Graph graph() const {
    Graph graph;
    const std::vector<Array> arrays = inputs();
    std::vector<Tensor> operands(ops::get("attention").inputs.size());
    for (std::size_t i = 0; i < 3; ++i) operands[i] = graph.add_input("in", arrays[i].type);
    if (segments)
      operands[in::kSegments] = operands[in::kKeySegments] =
          graph.add_input("segments", arrays[3].type);
    if (state > 0) operands[in::kStart] = graph.add_input("start", arrays[segments ? 4 : 3].type);
    if (sinks) operands[in::kSinks] = graph.add_input("sinks", arrays.back().type);
    const auto results = graph.add_node(ops::get("attention"), operands, {});
    graph.add_output("y", results[0]);
    graph.add_output("lse", results[1]);
    return graph;
  }
  std::vector<Array> run(const Backend& gpu = test_gpu()) const {
    return lamina::testing::run(graph(), inputs(), gpu);
  }
};

struct Chosen {
  std::string kernel, refusal;  // why cudnn is not it
};
Chosen chosen_in(const Graph& graph, std::string_view op, const Backend& gpu = test_gpu()) {
  std::vector<Refusal> refusals;
  for (const Node& node : graph.nodes())
    if (node.op == &ops::get(op))
      return with_node_view(graph, node, [&](const NodeView& view) {
        const KernelChoice* const choice = choose_kernel(gpu, view, &refusals);
        return Chosen{std::string(choice->name), refusals.empty() ? "" : refusals[0].why};
      });
  return {};
}
Chosen chosen_for(const Problem& problem, const Backend& gpu = test_gpu()) {
  return chosen_in(problem.graph(), "attention", gpu);
}

void expect_near(const std::vector<Array>& got, const std::vector<Array>& want, double most) {
  for (std::size_t i = 0; i < want.size(); ++i)
    for (std::int64_t e = 0; e < want[i].type.shape.num_elements(); ++e) {
      if (get(got[i], e) == get(want[i], e)) continue;  // also infinities
      ASSERT_NEAR(get(got[i], e), get(want[i], e), most) << "result " << i << ", element " << e;
    }
}

// The gradients of causal attention of q[4, 128, 2, 16] over itself, with two segments per row if
// `segments`.
Graph graph_of_gradients(bool segments) {
  const Type type{DType::bf16, {4, 128, 2, 16}, {}};
  Graph graph;
  std::vector<Tensor> x;
  for (int i = 0; i < 4; ++i) x.push_back(graph.add_input("in", type));
  Tensor ids;
  if (segments) ids = graph.add_input("ids", {DType::i32, {4, 128}, {}});
  const auto y = ops::attention(
      {.q = x[0], .k = x[1], .v = x[2], .segments = ids, .key_segments = ids}, {.causal = true});
  const auto grads = ops::attention_grad({.q = x[0],
                                          .k = x[1],
                                          .v = x[2],
                                          .segments = ids,
                                          .key_segments = ids,
                                          .y = y.y,
                                          .lse = y.lse,
                                          .dy = x[3]},
                                         {.causal = true});
  graph.add_output("dq", grads.dq);
  graph.add_output("dk", grads.dk);
  graph.add_output("dv", grads.dv);
  return graph;
}
std::vector<Array> run_gradients() {
  std::vector<Array> inputs;
  for (unsigned i = 0; i < 4; ++i)
    inputs.push_back(random_values({DType::bf16, {4, 128, 2, 16}, {}}, i + 1));
  return lamina::testing::run(graph_of_gradients(false), std::move(inputs), test_gpu());
}

// Sets the bytes of dS of one call while it exists.
class GradientBytes {
 public:
  explicit GradientBytes(std::int64_t bytes)
      : before_(std::exchange(cuda::most_logit_gradient_bytes, bytes)) {}
  ~GradientBytes() { cuda::most_logit_gradient_bytes = before_; }
  GradientBytes(const GradientBytes&) = delete;
  GradientBytes& operator=(const GradientBytes&) = delete;

 private:
  std::int64_t before_;
};

// ---- the choice

TEST(CudnnChoice, TakesPromptsAndRowsOfOneDocument) {
  EXPECT_EQ(chosen_for({.tokens = 130}).kernel, "cudnn");
  EXPECT_EQ(chosen_for({.tokens = 130, .state = 200}).kernel, "cudnn");
  EXPECT_EQ(chosen_for({.dtype = DType::f16}).kernel, "cudnn");
}

TEST(CudnnChoice, NeverTakesOneToken) {
  const Switch all("all");
  EXPECT_EQ(chosen_for({.tokens = 1, .state = 200}).refusal,
            "takes 2 or more queries per row, got 1");
}

TEST(CudnnChoice, LeavesFewQueriesToTiles) {
  const Chosen chosen = chosen_for({.tokens = 127, .state = 200});
  EXPECT_EQ(chosen.kernel, "tiles");
  EXPECT_EQ(chosen.refusal, "takes 128 or more queries per row, got 127");
}

TEST(CudnnChoice, LeavesOtherTypesAndWidthsToTiles) {
  EXPECT_EQ(chosen_for({.dtype = DType::f32}).refusal, "takes bf16 and f16, got f32");
  EXPECT_EQ(chosen_for({.width = 12}).refusal,
            "takes widths of heads that are multiples of 8 up to 256, got 12 and 12");
  EXPECT_EQ(chosen_for({.width = 264}).refusal,
            "takes widths of heads that are multiples of 8 up to 256, got 264 and 264");
}

TEST(CudnnChoice, TakesSegmentsIfAskedFor) {
  EXPECT_EQ(chosen_for({.segments = true}).refusal,
            "has not been measured with segments; LAMINA_GPU_CUDNN=all takes them");
  const Switch all("all");
  EXPECT_EQ(chosen_for({.segments = true}).kernel, "cudnn");
}

TEST(CudnnChoice, TakesGradientsWithoutSegments) {
  const Switch all("all");
  EXPECT_EQ(chosen_in(graph_of_gradients(false), "attention_grad").kernel, "cudnn");
  EXPECT_EQ(chosen_in(graph_of_gradients(true), "attention_grad").refusal,
            "computes other gradients than the definition with segments");
}

TEST(CudnnChoice, LeavesGradientsOfLongRowsToTiles) {
  const GradientBytes few(1 << 10);
  EXPECT_EQ(chosen_in(graph_of_gradients(false), "attention_grad").kernel, "tiles");
}

TEST(CudnnChoice, TakesSinksWithoutSegments) {
  EXPECT_EQ(chosen_for({.sinks = true}).kernel, "cudnn");
  EXPECT_EQ(chosen_for({.tokens = 130, .state = 200, .sinks = true}).kernel, "cudnn");
  const Switch all("all");
  EXPECT_EQ(chosen_for({.segments = true, .sinks = true}).refusal, "takes no sinks with segments");
}

// Layers of stacked log-sum-exps would not be aligned to 16 bytes.
TEST(CudnnChoice, LeavesOddNumbersOfRowsWithSegmentsToTiles) {
  const Switch all("all");
  const Chosen chosen = chosen_for({.tokens = 129, .segments = true});
  EXPECT_EQ(chosen.kernel, "tiles");
  EXPECT_EQ(chosen.refusal, "takes a number of rows of heads that is a multiple of 4");
  EXPECT_EQ(chosen_for({.tokens = 129}).kernel, "cudnn");
}

TEST(CudnnChoice, IsSwitchedOffByTheEnvironment) {
  const Switch off("0");
  EXPECT_EQ(chosen_for({}).refusal, "is switched off by LAMINA_GPU_CUDNN=0");
}

// A second GPU decides for the first one too.
std::unique_ptr<Backend> gpu_with(cuda::dnn::OpenDnn open) {
  return cuda::open_backend(cuda::emulation::driver(), cuda::emulation::images(), 0, {.dnn = open});
}

TEST(CudnnChoice, WithoutTheLibraryTilesCompute) {
  const auto gpu = gpu_with([]() -> const Opened& {
    static constexpr const char* kFiles[] = {"libmissing.so.9"};
    static const Opened opened = open_api(kFiles, 13000);
    return opened;
  });
  const Chosen chosen = chosen_for({}, *gpu);
  EXPECT_EQ(chosen.kernel, "tiles");
  EXPECT_TRUE(chosen.refusal.starts_with("cannot open cuDNN; expected libmissing.so.9, got '"))
      << chosen.refusal;
  EXPECT_EQ(chosen_for({}).kernel, "tiles");
}

TEST(CudnnLibrary, RefusesAnOldVersion) {
  const std::string file = LAMINA_BUILD_DIR "/tests/fake_dnn/libcudnn.so.9";
  const char* const files[] = {file.c_str()};
  const Opened opened = open_api(files, 13000);
  EXPECT_EQ(opened.api, nullptr);
  EXPECT_EQ(opened.why_not, file + " is cuDNN 9.10.2; expected 9.16.0 or newer");
}

TEST(CudnnLibrary, SaysWhichFunctionIsMissing) {
  constexpr const char* kFiles[] = {"libc.so.6"};
  EXPECT_EQ(open_api(kFiles, 13000).why_not, "libc.so.6 has no function cudnnCreate");
}

// It has the same name for CUDA 12 and 13.
TEST(CudnnLibrary, RefusesOneForANewerCudaThanTheDriver) {
  const std::string file = LAMINA_BUILD_DIR "/tests/fake_dnn/libcudnn_13.so.9";
  const char* const files[] = {file.c_str()};
  EXPECT_EQ(open_api(files, 12080).why_not, file + " is for CUDA 13; the driver is for 12");
  EXPECT_EQ(open_api(files, 13000).why_not, "");
}

// ---- results

TEST(CudnnAttention, EqualsTilesUpToRounding) {
  for (const Problem& problem :
       {Problem{}, Problem{.tokens = 140, .state = 200}, Problem{.segments = true},
        Problem{.sinks = true}, Problem{.dtype = DType::f16, .sinks = true},
        Problem{.tokens = 140, .state = 200, .sinks = true}}) {
    const Switch all("all");
    const int before = dnn_calls().executions;
    const std::vector<Array> got = problem.run();
    EXPECT_EQ(dnn_calls().executions, before + 1);
    const Switch off("0");
    expect_near(got, problem.run(), 2e-2);
  }
}

// The second row has 40 tokens; its padding would be past the capacity, 140.
TEST(CudnnAttention, PaddingPastTheCapacityOfAStateIsZero) {
  constexpr std::int64_t kTokens = 130, kCapacity = 140, kHeads = 2, kWidth = 16;
  const std::vector<Array> inputs = {
      random_values({DType::bf16, {2, kTokens, kHeads, kWidth}, {}}, 1),
      random_values({DType::bf16, {2, kCapacity, kHeads, kWidth}, {}}, 2),
      random_values({DType::bf16, {2, kCapacity, kHeads, kWidth}, {}}, 3),
      array({DType::i32, {2}, {}}, {10, 100})};
  Graph graph;
  std::vector<Tensor> operands(ops::get("attention").inputs.size());
  for (const int i : {in::kQ, in::kK, in::kV, in::kStart})
    operands[static_cast<std::size_t>(i)] =
        graph.add_input("in", inputs[std::min(static_cast<std::size_t>(i), std::size_t{3})].type);
  for (const Tensor& y : graph.add_node(ops::get("attention"), operands, {}))
    graph.add_output("out", y);
  ASSERT_EQ(chosen_in(graph, "attention").kernel, "cudnn");
  const std::vector<Array> got = run(graph, inputs, test_gpu());
  const Switch off("0");
  const std::vector<Array> want = run(graph, inputs, test_gpu());
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t t = 0; t < kTokens; ++t)
      for (std::int64_t n = 0; n < kHeads; ++n) {
        const bool real = b == 0 || t < 40;
        const std::int64_t y = ((b * kTokens + t) * kHeads + n) * kWidth + (t + n) % kWidth,
                           lse = (b * kHeads + n) * kTokens + t;
        ASSERT_NEAR(get(got[0], y), real ? get(want[0], y) : 0, 0.02) << b << ", " << t;
        if (real)
          ASSERT_NEAR(get(got[1], lse), get(want[1], lse), 1e-3) << b << ", " << t;
        else
          ASSERT_EQ(get(got[1], lse), -INFINITY) << b << ", " << t;
      }
}

TEST(CudnnAttention, ComputesGradientsInPartsOfTheBatch) {
  constexpr std::int64_t kBytesOfRow = 2 * 128 * 128 * 2;
  const std::vector<Array> whole = run_gradients();
  for (const std::int64_t rows : {1, 3}) {  // 3 rows are not an equal part: 2 are computed at once
    const GradientBytes few(rows * kBytesOfRow);
    const int before = dnn_calls().executions;
    const std::vector<Array> got = run_gradients();
    EXPECT_EQ(dnn_calls().executions - before, 1 + (rows == 1 ? 4 : 2));
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(got[i].bytes, whole[i].bytes);
  }
  const Switch off("0");
  expect_near(whole, run_gradients(), 4e-2);
}

TEST(CudnnAttention, HasTheSameBitsInEachRun) {
  const Problem problem{.tokens = 150};
  const std::vector<Array> first = problem.run(), second = problem.run();
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].bytes, second[i].bytes);
}

TEST(CudnnAttention, IsPlannedOncePerProblem) {
  const Problem problem{.tokens = 160};
  problem.run();
  const int before = dnn_calls().plans;
  problem.run();
  EXPECT_EQ(dnn_calls().plans, before);
}

TEST(CudnnAttention, IsComputedByTilesIfNoEngineTakesIt) {
  const Problem problem{.tokens = 170};
  const int before = dnn_calls().executions;
  std::vector<Array> got;
  {
    const cuda::emulation::NoDnnEngines none;
    got = problem.run();
  }
  EXPECT_EQ(dnn_calls().executions, before);
  const Switch off("0");
  const std::vector<Array> want = problem.run();
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].bytes, want[i].bytes);
}

// The tiles of calls that are not aligned do not split the keys of a state.
TEST(CudnnAttention, NeedsNoWorkspaceForSplitsOfKeys) {
  const Graph graph = Problem{.tokens = 140, .state = 4000}.graph();
  const auto workspace = [&](std::string_view kernel) {
    return with_node_view(graph, graph.nodes().back(), [&](const NodeView& view) {
      const KernelChoice* const choice = choose_kernel(test_gpu(), view, nullptr);
      EXPECT_EQ(choice->name, kernel);
      return choice->make(view, test_gpu().context())->workspace_bytes();
    });
  };
  const std::size_t bytes = workspace("cudnn");
  const Switch off("0");
  EXPECT_LT(bytes, workspace("tiles") / 4);
}

TEST(CudnnAttention, ReportsAFailureOfTheLibrary) {
  const Problem problem{.tokens = 180};
  problem.run();
  fail_next_dnn_call("cudnnBackendExecute", DnnStatus::execution_failed);
  EXPECT_ERROR_SAYS(problem.run(), ExitCode::memory,
                    "cuda: cudnnBackendExecute failed: CUDNN_STATUS_EXECUTION_FAILED");
  fail_next_dnn_call("cudnnBackendExecute", DnnStatus::execution_failed);
  EXPECT_ERROR_SAYS(problem.run(), ExitCode::memory,
                    "LAMINA_GPU_CUDNN=0 uses the kernels of lamina instead");
}

TEST(CudnnAttention, ReportsMissingMemory) {
  const auto gpu = cuda::emulation::open_emulated_gpu();
  fail_next_dnn_call("cudnnCreate", DnnStatus::device_allocation_failed);
  EXPECT_ERROR_SAYS(Problem{}.run(*gpu), ExitCode::memory,
                    "cuda: cudnnCreate failed: "
                    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED");
}

TEST(CudnnAttention, OneThatHangsIsNamed) {
  const auto gpu = cuda::emulation::open_emulated_gpu();
  static_cast<cuda::CudaContext&>(gpu->context()).set_patience(std::chrono::milliseconds(500));
  {
    Program program(Problem{}.graph(), *gpu);
    const auto arena = gpu->allocate(program.arena_bytes());
    const std::vector<Array> inputs = Problem{}.inputs();
    std::vector<ConstTensorRef> from;
    for (const Array& x : inputs) from.push_back(host_tensor(x.data(), x.type));
    Array y = unwritten(program.graph().type(program.graph().outputs()[0].value)),
          lse = unwritten(program.graph().type(program.graph().outputs()[1].value));
    const TensorRef to[] = {host_tensor(y.data(), y.type), host_tensor(lse.data(), lse.type)};
    program.run(from, to, *arena);
    cuda::emulation::fail_later(cuda::emulation::FaultPlace::hang, 0);
    EXPECT_ERROR_SAYS(program.run(from, to, *arena), ExitCode::memory,
                      "cuda: the kernel cudnn attention does not end: no progress for 0.5 s");
  }
  cuda::emulation::reset_gpu();
}

TEST(CudnnAttention, DestroysWhatItCreates) {
  const int before = cuda::emulation::num_dnn_objects();
  {
    const auto gpu = cuda::emulation::open_emulated_gpu();
    Problem{}.run(*gpu);
    EXPECT_GT(cuda::emulation::num_dnn_objects(), before);
  }
  EXPECT_EQ(cuda::emulation::num_dnn_objects(), before);
}

// Four nodes, because a graph has at least four kernel calls.
TEST(CudnnAttention, IsReplayedInAGraph) {
  constexpr int kNodes = 4, kRuns = 4;
  const Type type{DType::bf16, {1, 130, 2, 16}, {}};
  Graph graph;
  Tensor x = graph.add_input("x", type);
  for (int i = 0; i < kNodes; ++i) {
    std::vector<Tensor> operands(ops::get("attention").inputs.size());
    operands[in::kQ] = operands[in::kK] = operands[in::kV] = x;
    x = graph.add_node(ops::get("attention"), operands, {})[0];
  }
  graph.add_output("y", x);
  Program program(graph, test_gpu());
  const auto arena = test_gpu().allocate(program.arena_bytes() + 1000);
  const Array input = random_values(type, 1);
  std::vector<std::vector<std::byte>> results;
  const int executions = dnn_calls().executions;
  const std::int64_t replays = cuda::emulation::driver_counts().replays;
  for (int run = 0; run < kRuns; ++run) {
    Array y = zeros(type);
    const ConstTensorRef from[] = {host_tensor(input.data(), type)};
    const TensorRef to[] = {host_tensor(y.data(), type)};
    program.run(from, to, *arena);
    results.push_back(y.bytes);
  }
  EXPECT_EQ(cuda::emulation::driver_counts().replays - replays, kRuns - 1);
  EXPECT_EQ(dnn_calls().executions - executions, 2 * kNodes);  // once plainly, once captured
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST(CudnnAttention, ATrainingRunHasTheLossesOfTiles) {
  const SmallRun& small = kSmallRuns.at(1);
  ASSERT_EQ(std::string(small.name), "Microbatches");
  Trained by_tiles, by_cudnn, again;
  {
    const Switch off("0");
    by_tiles = train_on(test_gpu(), small);
  }
  {
    const Switch all("all");
    const int before = dnn_calls().executions;
    by_cudnn = train_on(test_gpu(), small);
    EXPECT_GT(dnn_calls().executions, before);
    again = train_on(test_gpu(), small);
  }
  EXPECT_EQ(by_cudnn.losses, again.losses);
  ASSERT_EQ(by_cudnn.losses.size(), by_tiles.losses.size());
  for (std::size_t i = 0; i < by_tiles.losses.size(); ++i)
    EXPECT_NEAR(by_cudnn.losses[i], by_tiles.losses[i], 2e-3 * std::abs(by_tiles.losses[i]));
}

}  // namespace
}  // namespace lamina::testing
