// Graphs: runs of programs that are captured once and replayed, on the fake driver, which
// refuses what the driver refuses while work is captured.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <set>
#include <thread>

#include "backends/cuda/context.h"
#include "backends/cuda/emulation/blas.h"
#include "backends/cuda/emulation/dnn.h"
#include "backends/cuda/queue.h"
#include "cuda/run_kernel.h"
#include "ops/op.h"
#include "runtime/recorded_runs.h"
#include "support/expect_error.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

using cuda::DriverResult;
using cuda::emulation::driver_counts;
using cuda::emulation::DriverCounts;

cuda::CudaQueue& queue() {
  // Loads the kernels of this file, which a capture does not allow.
  cuda::function(emulated_gpu().context(), "test_graph_scale");
  return static_cast<cuda::CudaQueue&>(emulated_gpu().context().queue());
}
const cuda::DriverApi& api() { return cuda::emulation::driver(); }

// ---- programs

// y = ((x + b) ... + b) with `count` products between, so that maps are not one kernel.
Graph chain(int count) {
  Graph graph;
  Tensor x = graph.add_input("x", {DType::f32, {4, 8}, {}});
  const Tensor w = graph.add_input("w", {DType::f32, {8, 8}, {}});
  for (int i = 0; i < count; ++i) x = ops::call("silu", {ops::linear(x, w)});
  graph.add_output("y", x);
  return graph;
}

// A program with its memory on the GPU.
struct Runner {
  Program program;
  std::unique_ptr<Buffer> arena;
  OnGpu w{counted(64)};
  std::vector<float> x, y = std::vector<float>(32);

  explicit Runner(int count)
      : program(optimized_for(emulated_gpu(), chain(count)), emulated_gpu()),
        arena(emulated_gpu().allocate(program.arena_bytes() + 1000)) {}

  // Returns the results for the input 0, step, 2 step, ...
  std::vector<float> run(float step) {
    x = counted(32);
    for (float& value : x) value *= step;
    const ConstTensorRef in[] = {host_tensor(x.data(), {DType::f32, {4, 8}, {}}), w.tensor()};
    const TensorRef out[] = {host_tensor(y.data(), {DType::f32, {4, 8}, {}})};
    program.run(in, out, *arena);
    return y;
  }
};

TEST(CudaGraphs, AProgramThatRunsAgainIsReplayed) {
  Runner runner(6), plain(6);
  plain.program.set_profiling(true);
  const DriverCounts before = driver_counts();
  for (const float step : {0.01f, 0.02f, -0.03f, 0.04f})
    EXPECT_EQ(runner.run(step), plain.run(step));
  const DriverCounts after = driver_counts();
  EXPECT_EQ(after.captures - before.captures, 1);
  EXPECT_EQ(after.instantiations - before.instantiations, 1);
  EXPECT_EQ(after.replays - before.replays, 3);
  EXPECT_GE(queue().recorded().nodes, 6);
}

TEST(CudaGraphs, AFewKernelCallsAreNotCaptured) {
  Runner runner(1);
  const DriverCounts before = driver_counts();
  for (int i = 0; i < 3; ++i) runner.run(0.01f);
  EXPECT_EQ(driver_counts().captures, before.captures);
}

TEST(CudaGraphs, AReplayReadsNothingThatAnEarlierRunLeftInTheArena) {
  Runner runner(6);
  const auto want = runner.run(0.01f);
  cuda::emulation::poison_at_replay(runner.arena->bytes());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(runner.run(0.01f), want);
  cuda::emulation::stop_poison();
}

TEST(CudaGraphs, WatchedRunsAreNotReplayed) {
  struct Count : Watcher {
    int kernels = 0;
    void enter(const Graph&, NodeId, std::int64_t) override {}
    void leave() override {}
    void ran(const Graph&, NodeId, std::span<const TensorRef>) override { ++kernels; }
  } count;
  Runner runner(6);
  for (int i = 0; i < 3; ++i) runner.run(0.01f);
  runner.program.watch(&count);
  const DriverCounts before = driver_counts();
  runner.run(0.01f);
  EXPECT_GE(count.kernels, 6);
  EXPECT_EQ(driver_counts().replays, before.replays);
}

// ---- addresses

LAMINA_GPU_KERNEL(test_graph_scale, InAndOut) {
  const int i = gpu::thread_index();
  gpu::Global<float>(p.out)[i] = 2 * gpu::Global<const float>(p.in)[i];
}
LAMINA_GPU_KERNEL(test_graph_add, InAndOut) {
  const int i = gpu::thread_index();
  const gpu::Global<float> out(p.out);
  out[i] = out[i] + gpu::Global<const float>(p.in)[i];
}

void launch(const std::string& name, const OnGpu& in, const OnGpu& out, Queue& on = queue()) {
  const KernelArgs args = {.inputs = {}, .outputs = {}, .queue = &on};
  cuda::launch(args, cuda::function(emulated_gpu().context(), name), {.threads = 32},
               InAndOut{in.address(), out.address()});
}

std::vector<std::unique_ptr<OnGpu>> results(std::size_t count) {
  std::vector<std::unique_ptr<OnGpu>> out;
  while (out.size() < count) out.push_back(std::make_unique<OnGpu>(std::vector<float>(32)));
  return out;
}

TEST(CudaGraphs, NewAddressesChangeAGraphThatIsNotUsedAnyMore) {
  RecordedRuns runs(queue());
  const OnGpu in(counted(32));
  const auto outs = results(RecordedRuns::kMostRecordings + 1);
  const DriverCounts before = driver_counts();
  for (const auto& out : outs)
    for (std::int64_t time = 0; time < RecordedRuns::kIdleRuns; ++time)
      runs.run({out->address().value}, [&] { launch("test_graph_scale", in, *out); });
  for (const auto& out : outs) EXPECT_EQ(out->read()[31], 62);
  const DriverCounts after = driver_counts();
  EXPECT_EQ(after.instantiations - before.instantiations,
            static_cast<std::int64_t>(RecordedRuns::kMostRecordings));
  EXPECT_EQ(after.updates - before.updates, 1);
}

// Capturing again and again would cost more than it saves.
TEST(CudaGraphs, OfManyAddressesInTurnTheFirstAreReplayed) {
  RecordedRuns runs(queue());
  const OnGpu in(counted(32));
  const auto outs = results(20);
  const DriverCounts before = driver_counts();
  for (int time = 0; time < 10; ++time)
    for (const auto& out : outs)
      runs.run({out->address().value}, [&] { launch("test_graph_add", in, *out); });
  for (const auto& out : outs) EXPECT_EQ(out->read()[31], 310);
  EXPECT_EQ(driver_counts().captures - before.captures,
            static_cast<std::int64_t>(RecordedRuns::kMostRecordings));
}

TEST(CudaGraphs, WorkThatWaitsIsNotCaptured) {
  RecordedRuns runs(queue());
  const OnGpu in(counted(32)), out(std::vector<float>(32));
  const DriverCounts before = driver_counts();
  for (int time = 0; time < 4; ++time)
    runs.run({out.address().value}, [&] {
      launch("test_graph_add", in, out);
      queue().finish();
    });
  EXPECT_EQ(out.read()[31], 4 * 31);
  EXPECT_EQ(driver_counts().captures - before.captures, 1);
  EXPECT_EQ(driver_counts().replays, before.replays);
}

// The call that failed did not make the capture invalid.
TEST(CudaGraphs, WorkThatFailsHalfwayIsForgotten) {
  RecordedRuns runs(queue());
  const OnGpu in(counted(32)), out(std::vector<float>(32));
  const DriverCounts before = driver_counts();
  const std::int64_t graphs = queue().recorded().graphs;
  for (int time = 0; time < 3; ++time)
    runs.run({out.address().value}, [&] {
      launch("test_graph_add", in, out);
      if (queue().is_recording())
        throw DeviceError(ExitCode::memory, {"cuda", "a library takes no captures", {}});
    });
  EXPECT_EQ(out.read()[31], 3 * 31);
  EXPECT_EQ(driver_counts().captures - before.captures, 1);
  EXPECT_EQ(driver_counts().instantiations, before.instantiations);
  EXPECT_EQ(queue().recorded().graphs, graphs);
}

TEST(CudaGraphs, ALostGpuFailsTheReplayOrTheNextWait) {
  for (const auto place :
       {cuda::emulation::FaultPlace::launch, cuda::emulation::FaultPlace::work}) {
    const ResetAfter reset;
    Runner runner(6);
    for (int i = 0; i < 2; ++i) runner.run(0.01f);
    cuda::emulation::fail_later(place, 0);
    EXPECT_ERROR_SAYS(runner.run(0.01f), ExitCode::memory, "CUDA_ERROR_LAUNCH_FAILED");
  }
}

TEST(CudaGraphs, WithoutMemoryForAGraphRunsArePlain) {
  const ResetAfter reset;
  Runner runner(6);
  const auto want = runner.run(0.01f);
  cuda::emulation::fail_later(cuda::emulation::FaultPlace::allocation, 0);
  const DriverCounts before = driver_counts();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(runner.run(0.01f), want);
  EXPECT_EQ(driver_counts().replays, before.replays);
}

// ---- the fake driver: what the driver refuses while work is captured

// Begins a capture; ends it with the object.
struct Capturing {
  Capturing() { queue().begin_recording(); }
  ~Capturing() { queue().end_recording(nullptr); }
  DriverResult end() {
    cuda::GraphHandle graph = nullptr;
    const DriverResult result = api().end_capture(queue().stream(), &graph);
    if (graph) api().destroy_graph(graph);
    return result;
  }
};

TEST(CudaGraphs, CallsThatWaitOrAllocateEndACapture) {
  const OnGpu values(counted(32));
  cuda::DevicePointer address = 0;
  void* host = nullptr;
  cuda::EventHandle earlier = nullptr;
  ASSERT_EQ(api().make_event(&earlier, cuda::kEventDefault), DriverResult::success);
  ASSERT_EQ(api().record_event(earlier, queue().stream()), DriverResult::success);
  const std::function<DriverResult()> calls[] = {[&] { return api().allocate(&address, 8); },
                                                 [&] { return api().allocate_host(&host, 8, 0); },
                                                 [&] { return api().free(values.address().value); },
                                                 [&] { return api().query_event(earlier); }};
  for (const auto& call : calls) {
    Capturing capturing;
    EXPECT_EQ(call(), DriverResult::capture_unsupported);
    EXPECT_EQ(api().fill(values.address().value, 0, 4, queue().stream()),
              DriverResult::capture_invalidated);
    EXPECT_EQ(capturing.end(), DriverResult::capture_invalidated);
  }
  EXPECT_EQ(values.read(), counted(32));
  api().destroy_event(earlier);
}

TEST(CudaGraphs, TheHostCannotWaitForAnEventOfACapture) {
  Capturing capturing;
  const auto event = queue().record();
  EXPECT_ERROR_SAYS(event->wait(), ExitCode::memory, "CUDA_ERROR_CAPTURED_EVENT");
  EXPECT_EQ(capturing.end(), DriverResult::capture_invalidated);
}

// Copies of another queue, such as copies of offloaded values, may be in a recorded run, and later
// ones wait for early ones if there are many.
TEST(CudaGraphs, CopiesOfAQueueThatJoinsAreNoWorkToWaitFor) {
  constexpr int kManyCopies = 600;  // more than a queue has unfinished
  const OnGpu from(counted(32)), to(std::vector<float>(32));
  const auto copies = emulated_gpu().context().make_queue();
  const auto copy_many = [&] {
    for (int i = 0; i < kManyCopies; ++i) copies->copy(to.tensor(), from.tensor());
  };
  copy_many();
  queue().begin_recording();
  copies->wait(queue().record());
  copy_many();
  queue().wait(copies->record());
  EXPECT_NE(queue().end_recording(nullptr), nullptr);
  copy_many();
  copies->finish();
  EXPECT_EQ(to.read(), counted(32));
}

// A free waits for the work of all queues, and none may wait for a queue that captures.
TEST(CudaGraphs, MemoryThatAnotherThreadFreesIsFreedAfterTheCapture) {
  const OnGpu in(counted(32)), out(std::vector<float>(32));
  for (const bool pinned : {false, true}) {
    auto memory = pinned ? emulated_gpu().allocate_for_copies(64) : emulated_gpu().allocate(64);
    queue().begin_recording();
    launch("test_graph_scale", in, out);
    std::atomic<bool> freed = false;
    std::thread frees([&] {
      memory = nullptr;
      freed = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(freed);
    launch("test_graph_add", in, out);
    const auto recording = queue().end_recording(nullptr);
    frees.join();
    ASSERT_NE(recording, nullptr);
    queue().replay(*recording);
    EXPECT_EQ(out.read()[31], 93);
  }
}

// A driver that needs time to end a capture, as for many kernels.
DriverResult end_slowly(cuda::StreamHandle stream, cuda::GraphHandle* graph) {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return api().end_capture(stream, graph);
}

TEST(CudaGraphs, MemoryIsNotFreedWhileTheDriverEndsTheCapture) {
  static const cuda::DriverApi slow = [] {
    cuda::DriverApi out = api();
    out.end_capture = end_slowly;
    return out;
  }();
  const auto gpu =
      cuda::open_backend(slow, cuda::emulation::images(), 0,
                         {.blas = cuda::emulation::blas_api, .dnn = cuda::emulation::dnn_opened});
  auto& mine = static_cast<cuda::CudaQueue&>(gpu->context().queue());
  const auto kept = gpu->allocate(64);
  auto memory = gpu->allocate(64);
  mine.begin_recording();
  mine.fill({*kept, 0, {DType::f32, {16}, {}}}, std::byte{0});
  std::thread frees([&] { memory = nullptr; });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto recording = mine.end_recording(nullptr);
  frees.join();
  EXPECT_NE(recording, nullptr);
}

TEST(CudaGraphs, ThreadsThatWaitForACaptureContinueIfTheGpuIsGivenUp) {
  const auto gpu = cuda::emulation::open_emulated_gpu();
  auto& context = static_cast<cuda::CudaContext&>(gpu->context());
  auto& mine = static_cast<cuda::CudaQueue&>(context.queue());
  auto memory = gpu->allocate(64);
  mine.begin_recording();
  std::thread frees([&] { memory = nullptr; });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_ERROR_SAYS(context.give_up({"cuda", "a kernel does not end", {}}), ExitCode::memory,
                    "does not end");
  EXPECT_ERROR_SAYS(mine.end_recording(nullptr), ExitCode::memory, "does not end");
  EXPECT_FALSE(mine.is_recording());
  frees.join();
  // The driver refuses calls of this thread until the capture has ended.
  cuda::GraphHandle graph = nullptr;
  EXPECT_EQ(api().end_capture(mine.stream(), &graph), DriverResult::success);
  api().destroy_graph(graph);
}

TEST(CudaGraphs, ACaptureIsEndedByItsThreadOnItsStream) {
  Capturing capturing;
  const auto other = emulated_gpu().context().make_queue();
  auto& joined = static_cast<cuda::CudaQueue&>(*other);
  joined.wait(queue().record());
  cuda::GraphHandle graph = nullptr;
  EXPECT_EQ(api().end_capture(joined.stream(), &graph), DriverResult::capture_unmatched);
  std::thread([&] {
    queue().context().enter();
    EXPECT_EQ(api().end_capture(queue().stream(), &graph), DriverResult::capture_wrong_thread);
  }).join();
  EXPECT_EQ(capturing.end(), DriverResult::success);
  EXPECT_EQ(api().end_capture(queue().stream(), &graph), DriverResult::illegal_state);
}

TEST(CudaGraphs, AStreamThatJoinsMustBeWaitedFor) {
  const OnGpu in(counted(32)), a(std::vector<float>(32)), b(std::vector<float>(32));
  const auto other = emulated_gpu().context().make_queue();
  for (const bool joins : {false, true}) {
    Capturing capturing;
    launch("test_graph_scale", in, a);
    other->wait(queue().record());
    launch("test_graph_scale", in, b, *other);
    if (joins) queue().wait(other->record());
    EXPECT_EQ(capturing.end(), joins ? DriverResult::success : DriverResult::capture_unjoined);
  }
}

TEST(CudaGraphs, WorkBeforeACaptureCannotBeWaitedForInIt) {
  const auto other = emulated_gpu().context().make_queue();
  const auto before = other->record();
  Capturing capturing;
  EXPECT_ERROR_SAYS(queue().wait(before), ExitCode::memory, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION");
  EXPECT_EQ(capturing.end(), DriverResult::capture_invalidated);
}

// Two branches without an order between: both orders occur.
TEST(CudaGraphs, BranchesOfAGraphRunInAnyOrder) {
  const OnGpu ones(std::vector<float>(32, 1)), out(std::vector<float>(32));
  const auto other = emulated_gpu().context().make_queue();
  queue().begin_recording();
  const auto fork = queue().record();
  other->wait(fork);
  launch("test_graph_scale", ones, out);
  launch("test_graph_add", ones, out, *other);
  queue().wait(other->record());
  const auto recording = queue().end_recording(nullptr);
  ASSERT_NE(recording, nullptr);
  std::set<float> results;
  for (int i = 0; i < 40; ++i) {
    queue().replay(*recording);
    results.insert(out.read()[0]);
  }
  EXPECT_EQ(results, (std::set<float>{2, 3}));
}

// The second kernel reads memory that only earlier work has written.
TEST(CudaGraphs, AGraphThatReadsWhatEarlierWorkLeftIsFound) {
  const OnGpu in(counted(32)), scratch(std::vector<float>(33)), out(std::vector<float>(32));
  launch("test_graph_scale", in, scratch);
  queue().begin_recording();
  launch("test_graph_scale", scratch, out);
  const auto recording = queue().end_recording(nullptr);
  queue().replay(*recording);
  EXPECT_EQ(out.read()[1], 4);
  cuda::emulation::poison_at_replay(33 * sizeof(float));
  queue().replay(*recording);
  EXPECT_TRUE(std::isnan(out.read()[1]));
  cuda::emulation::stop_poison();
}

}  // namespace
}  // namespace lamina::testing
