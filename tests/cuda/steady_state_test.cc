// Steps of decoding and training on the emulated GPU after the first ones: replayed graphs, no
// allocation, and no wait of the host except for results.
#include <gtest/gtest.h>

#include "core/round_up.h"
#include "cuda/plain_gpu.h"
#include "inspect/plan/decode_plan.h"
#include "support/device_models.h"

namespace lamina::testing {
namespace {

using cuda::emulation::driver_counts;
using cuda::emulation::DriverCounts;

class CudaSteadyState : public ::testing::TestWithParam<const char*> {
 protected:
  const decoder::Model model = open_model(test_model(GetParam()).path);
};

TEST_P(CudaSteadyState, DecodingIsOneReplayAndOneWaitPerToken) {
  const Rows rows = random_rows(model, 1, 12);
  const weights::Weights weights = weights_on(emulated_gpu(), model, DType::f32);
  decode::Session session(model, weights.pointers(), {.capacity = 64}, emulated_gpu());
  const auto append = [&](std::size_t i) { session.append(std::span(rows.ids).subspan(i, 1)); };
  for (std::size_t i = 0; i < 3; ++i) append(i);
  const DriverCounts before = driver_counts();
  for (std::size_t i = 3; i < 11; ++i) append(i);
  const DriverCounts after = driver_counts();
  EXPECT_EQ(after.replays - before.replays, 8);
  EXPECT_EQ(after.waits - before.waits, 8);  // for the logits
  EXPECT_EQ(after.captures, before.captures);
  EXPECT_EQ(after.launches, before.launches);
  EXPECT_EQ(after.allocations, before.allocations);
}

// Arenas are filled with NaN before each replay.
TEST_P(CudaSteadyState, ReplayedTokensHaveTheBitsOfPlainOnes) {
  const Rows rows = random_rows(model, 1, 12);
  const auto run = [&](const Backend& backend, bool poisons) {
    const weights::Weights weights = weights_on(backend, model, DType::f32);
    decode::Session session(model, weights.pointers(), {.capacity = 64}, backend);
    if (poisons) cuda::emulation::poison_at_replay(session.program(1).arena_bytes());
    std::vector<float> out;
    for (std::size_t i = 0; i < rows.ids.size(); ++i) {
      const auto logits = session.append(std::span(rows.ids).subspan(i, 1));
      out.insert(out.end(), logits.begin(), logits.end());
    }
    cuda::emulation::stop_poison();
    return out;
  };
  EXPECT_EQ(run(emulated_gpu(), true), run(plain_gpu(), false));
}

// A prompt and two tokens allocate no more than the plan contains.
TEST_P(CudaSteadyState, DecodingAllocatesWhatItsPlanContains) {
  const decode::SessionOptions options{.batch = 3, .capacity = 16, .call_tokens = 5};
  const Rows rows = random_rows(model, 3, 7);
  const weights::Weights weights = weights_on(emulated_gpu(), model, DType::f32);
  const auto used = [] {
    std::size_t free = 0, total = 0;
    EXPECT_EQ(cuda::emulation::driver().memory_info(&free, &total), cuda::DriverResult::success);
    return total - free;
  };
  const inspect::DecodePlan plan = inspect::plan_decoding(model, options, emulated_gpu());
  const std::int64_t vocab = model.vocab_size();
  for (const decode::ShortlistShape& shape :
       {decode::ShortlistShape{}, decode::shortlist_shape({}, vocab)}) {
    const std::size_t before = used();
    decode::Session session(model, weights.pointers(), options, emulated_gpu());
    session.set_shortlists(shape);
    const std::vector<double> draws(3, 0.5);
    if (session.has_shortlists()) session.set_draws(1.0, draws);
    for (const auto& [first, count] : {std::pair{0, 5}, {5, 1}, {6, 1}}) {
      std::vector<std::span<const std::int32_t>> piece;
      for (int b = 0; b < 3; ++b)
        piece.push_back(std::span(rows.ids).subspan(static_cast<std::size_t>(b * 7 + first),
                                                    static_cast<std::size_t>(count)));
      session.append(piece);
    }
    const std::size_t allocated = used() - before;
    SCOPED_TRACE(fmt::format("{} tokens, {} likeliest", vocab, shape.likeliest));
    EXPECT_GT(allocated, plan.states + 3 * 4 * static_cast<std::size_t>(vocab));
    EXPECT_LE(allocated, plan.states + plan.temporaries + plan.transfers);
  }
}

struct Steps {
  std::vector<double> losses;
  DriverCounts last = {};  // of the last step
};

Steps train_steps(const decoder::Model& model, const Backend& backend, int count) {
  constexpr int kMicrobatches = 2;
  const Rows rows = random_rows(model, kMicrobatches * 2, test_tokens(model));
  train::TrainState state(model.parameters(), DType::bf16, true, backend);
  initialise(state, model);
  train::TrainStep step(model, state,
                        {.shape = {2, test_tokens(model), DType::bf16},
                         .features = train::all_losses(false),
                         .microbatches = kMicrobatches,
                         .clip_norm = 1},
                        {}, backend);
  const std::vector<program::Microbatch> batches = {rows.microbatch(), rows.microbatch(2)};
  Steps out;
  for (int i = 0; i < count; ++i) {
    const DriverCounts before = driver_counts();
    out.losses.push_back(step.run(batches, 1e-3 / (1 + i), i).loss);
    const DriverCounts after = driver_counts();
    out.last = {.captures = after.captures - before.captures,
                .replays = after.replays - before.replays,
                .waits = after.waits - before.waits,
                .allocations = after.allocations - before.allocations};
  }
  return out;
}

// The host reads the losses of each microbatch, and the norm of the gradient.
TEST_P(CudaSteadyState, TrainingWaitsForItsNumbersOnly) {
  const Steps steps = train_steps(model, emulated_gpu(), 5);
  EXPECT_EQ(steps.last.waits, 3);
  EXPECT_GE(steps.last.replays, 3);
  EXPECT_EQ(steps.last.captures, 0);
  EXPECT_EQ(steps.last.allocations, 0);
}

TEST_P(CudaSteadyState, ReplayedStepsHaveTheBitsOfPlainOnes) {
  EXPECT_EQ(train_steps(model, emulated_gpu(), 4).losses,
            train_steps(model, plain_gpu(), 4).losses);
}

// 40 tensors per launch, and 91 gradients per two launches; with state in host memory, too.
TEST_P(CudaSteadyState, UpdatesOfManyTensorsAreOneLaunch) {
  const std::vector<decoder::Parameter>& all = model.parameters().all();
  const std::int64_t count = std::ssize(all);
  ASSERT_GT(count, 20);
  for (const bool offload : {false, true}) {
    const config::OptimizerSection section{.offload = offload};
    const train::TrainState state(model.parameters(), DType::bf16, false, emulated_gpu(), {},
                                  section);
    train::Optimizer optimizer(model.parameters(), section, emulated_gpu());
    for (int step = 0; step < 3; ++step) {
      const DriverCounts before = driver_counts();
      optimizer.gradient_norm(state);
      const DriverCounts measured = driver_counts();
      EXPECT_EQ(measured.launches - before.launches, 2 * divide_up(count, std::int64_t{91}));
      optimizer.update(state, 1e-3, 1, step);
      const DriverCounts updated = driver_counts();
      const std::int64_t launches = divide_up(count, std::int64_t{40});
      // From the second step on the update is a graph: it is recorded once, then replayed.
      EXPECT_EQ(updated.launches - measured.launches, step < 2 ? launches : 0);
      EXPECT_EQ(updated.replays - measured.replays, step < 1 ? 0 : 1);
    }
  }
}

// Returns the kernels that the first update of all parameters launches.
std::int64_t launches_of_update(const decoder::Model& model,
                                const config::OptimizerSection& section) {
  const train::TrainState state(model.parameters(), DType::bf16, false, emulated_gpu(), {},
                                section);
  train::Optimizer optimizer(model.parameters(), section, emulated_gpu());
  const std::int64_t before = driver_counts().launches;
  optimizer.update(state, 1e-3, 1, 0);
  return driver_counts().launches - before;
}

// Rules that are one map need a few launches for some hundred tensors, others a few for each stage.
// Products of Muon are one call per tensor.
TEST_P(CudaSteadyState, UpdatesByEachRuleAreFewLaunches) {
  struct Limit {
    config::OptimizerSection section;
    std::int64_t launches;
  };
  ASSERT_GT(std::ssize(model.parameters().all()), 100);
  for (const auto& [section, limit] : {Limit{{.name = "sgd"}, 6},
                                       {{.name = "sgd", .momentum = 0.9}, 6},
                                       {{.name = "lion"}, 7},
                                       {{.moments = "bfloat16"}, 8},
                                       {{.eps_root = 1e-8}, 8},
                                       {{.moments = "8bit"}, 60},
                                       {{.name = "lion", .moments = "8bit"}, 33},
                                       {{.name = "adafactor"}, 177},
                                       {{.name = "muon"}, 164}}) {
    SCOPED_TRACE(section.name + " " + section.moments);
    EXPECT_LE(launches_of_update(model, section), limit);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaSteadyState, ::testing::Values("llama2_deep", "qwen3_5"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace lamina::testing
