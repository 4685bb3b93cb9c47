// optimizer.in_backward on the emulated GPU: the bits of updates after the pass, few launches, and
// replayed graphs.
#include <gtest/gtest.h>

#include "cuda/plain_gpu.h"
#include "support/device_models.h"

namespace lamina::testing {
namespace {

using cuda::emulation::driver_counts;
using cuda::emulation::DriverCounts;

struct BackwardSteps {
  std::vector<double> norms;
  std::vector<std::vector<float>> masters;
  std::size_t rounds = 0;
  DriverCounts first = {}, last = {};  // of the first and of the last step
};

DriverCounts operator-(const DriverCounts& a, const DriverCounts& b) {
  return {.captures = a.captures - b.captures,
          .replays = a.replays - b.replays,
          .launches = a.launches - b.launches,
          .waits = a.waits - b.waits,
          .allocations = a.allocations - b.allocations};
}

BackwardSteps backward_steps(const decoder::Model& model, const config::OptimizerSection& optimizer,
                             const Backend& backend, int count, DType dtype = DType::bf16) {
  const train::TrainStepOptions options{.shape = {1, test_tokens(model), dtype},
                                        .features = train::all_losses(false),
                                        .clip_norm = 0.05,
                                        .clip_each = true,
                                        .in_backward = optimizer.in_backward};
  decoder::ModelGraph graph = train::step_graph(model, options);
  train::TrainState state(model.parameters(), dtype, false, backend,
                          train::step_lists(graph, model, options), optimizer);
  initialise(state, model);
  train::TrainStep step(model, std::move(graph), state, options, optimizer, backend);
  const Rows rows = random_rows(model, 1, test_tokens(model));
  const program::Microbatch batch = rows.microbatch();
  BackwardSteps out{.rounds = state.lists().rounds.size()};
  for (int i = 0; i < count; ++i) {
    const DriverCounts before = driver_counts();
    out.norms.push_back(step.run({&batch, 1}, 1e-3 / (1 + i), i).gradient_norm);
    out.last = driver_counts() - before;
    if (i == 0) out.first = out.last;
  }
  for (const TensorRef& master : state.masters())
    out.masters.push_back(copy_to_host<float>(state.queue(), master));
  return out;
}

struct BackwardCase {
  config::OptimizerSection optimizer;
  std::int64_t launches;  // for each layer, more than updates after the pass need
};

const std::vector<BackwardCase> kBackwardCases = {{{}, 15},
                                                  {{.offload = true}, 15},
                                                  {{.moments = "bfloat16"}, 19},
                                                  {{.moments = "8bit"}, 41},
                                                  {{.name = "sgd", .momentum = 0.9}, 19},
                                                  {{.name = "lion"}, 19},
                                                  {{.name = "adafactor"}, 41},
                                                  {{.name = "muon"}, 54}};

class CudaBackwardUpdates : public ::testing::TestWithParam<std::size_t> {
 protected:
  CudaBackwardUpdates() { within_.in_backward = true; }

  const decoder::Model model_ = open_model(test_model("llama2_deep").path);
  const config::OptimizerSection after_ = kBackwardCases[GetParam()].optimizer;
  config::OptimizerSection within_ = after_;
};

TEST_P(CudaBackwardUpdates, GiveTheBitsOfUpdatesAfterIt) {
  const BackwardSteps within = backward_steps(model_, within_, test_gpu(), 4),
                      after = backward_steps(model_, after_, test_gpu(), 4);
  EXPECT_EQ(within.norms, after.norms);
  EXPECT_EQ(within.masters, after.masters);
  EXPECT_EQ(backward_steps(model_, within_, plain_gpu(), 4).masters, after.masters);
}

// The step and its updates are one graph.
TEST_P(CudaBackwardUpdates, AreReplayedWithTheStep) {
  const BackwardSteps steps = backward_steps(model_, within_, emulated_gpu(), 5);
  EXPECT_EQ(steps.last.captures, 0);
  EXPECT_EQ(steps.last.allocations, 0);
  EXPECT_LT(steps.last.launches, 10);
}

// The recorded step has more copies than a queue may have unfinished, and each step adds some.
TEST(OffloadedBackwardUpdates, ContinueForManySteps) {
  const decoder::Model model = open_model(test_model("llama2_deep").path);
  const BackwardSteps steps =
      backward_steps(model, {.in_backward = true, .offload = true}, test_gpu(), 50);
  EXPECT_EQ(steps.norms.size(), 50u);
}

// Each round has a few launches for the checks of its gradients, and one update of all its tensors.
TEST_P(CudaBackwardUpdates, OfALayerShareLaunches) {
  const BackwardSteps within = backward_steps(model_, within_, emulated_gpu(), 1),
                      after = backward_steps(model_, after_, emulated_gpu(), 1);
  ASSERT_GT(within.rounds, 5u);
  const auto rounds = static_cast<std::int64_t>(within.rounds);
  EXPECT_LE((within.first.launches - after.first.launches) / rounds,
            kBackwardCases[GetParam()].launches);
}

INSTANTIATE_TEST_SUITE_P(All, CudaBackwardUpdates,
                         ::testing::Range(std::size_t{0}, kBackwardCases.size()));

}  // namespace
}  // namespace lamina::testing
