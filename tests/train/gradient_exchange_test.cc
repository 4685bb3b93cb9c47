// Gradients are sent to the other ranks when they are complete, and not before.
#include "train/parallel/gradient_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ranges>

#include "backends/cpu/backend.h"
#include "support/device_models.h"
#include "support/models.h"

namespace lamina::testing {
namespace {

// A rank without others, which keeps a copy of each tensor that it is given. On the CPU work runs
// at once, so a copy has the values at the time of the call.
class Recorder final : public Communicator {
 public:
  struct Sent {
    TensorRef tensor;
    std::vector<float> values;
  };
  int rank() const override { return 0; }
  int num_ranks() const override { return 1; }
  const Backend& backend() const override { return cpu::cpu_backend(); }
  Queue& queue() override { return backend().context().queue(); }
  void all_reduce(std::span<const TensorRef> tensors) override {
    for (const TensorRef& tensor : tensors) sent.push_back({tensor, values_of(tensor)});
  }
  void all_gather(const TensorRef& to, const ConstTensorRef& from) override {
    queue().copy(to, from);
  }
  void broadcast(const TensorRef&, int) override {}
  void finish() override {}
  void abort() override {}

  static std::vector<float> values_of(const TensorRef& tensor) {
    const std::span<float> values = host_view<float>(tensor);
    return {values.begin(), values.end()};
  }

  std::vector<Sent> sent;
};

class ExchangedGradients : public ::testing::TestWithParam<TestModel> {};

TEST_P(ExchangedGradients, SendsEachGradientOnceAndComplete) {
  const decoder::Model model = open_model(GetParam().path);
  const Rows rows = random_rows(model, 4, test_tokens(model));
  const std::vector<program::Microbatch> batches = {rows.microbatch(), rows.microbatch(2)};
  for (const std::int64_t count : {1, 2}) {
    const train::TrainStepOptions options{.shape = {2, test_tokens(model)},
                                          .features = train::all_losses(false),
                                          .microbatches = count};
    decoder::ModelGraph graph = train::step_graph(model, options);
    const train::GradientLists lists = train::gradient_lists(graph, model.parameters(), count);
    train::TrainState state(model.parameters(), DType::f32, count > 1, cpu::cpu_backend(), lists);
    initialise(state, model);
    train::TrainStep step(model, std::move(graph), state, options, {}, cpu::cpu_backend());
    Recorder recorder;
    train::GradientExchange exchange(step.program(), step.gradient_tensors(), state, lists,
                                     recorder, 1);
    const std::span<const program::Microbatch> mine(batches.data(),
                                                    static_cast<std::size_t>(count));
    for (int pass = 0; pass < 3; ++pass) {
      recorder.sent.clear();
      std::size_t sent_early = 0;
      step.add_microbatches(mine, step.count(mine), pass, [&](const std::function<void()>& run) {
        exchange.around_last([&] {
          run();
          sent_early = recorder.sent.size();
        });
      });
      const auto num_whole = std::ranges::count_if(
          std::views::iota(std::size_t{0}, state.gradients().size()), [&](std::size_t i) {
            return state.gradients()[i] && !state.is_listed(static_cast<int>(i));
          });
      EXPECT_EQ(std::ssize(recorder.sent), num_whole);
      if (pass > 0) {
        EXPECT_GT(2 * sent_early, recorder.sent.size());
      }
      for (const Recorder::Sent& sent : recorder.sent)
        EXPECT_TRUE(sent.values == Recorder::values_of(sent.tensor)) << "pass " << pass;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExchangedGradients, ::testing::ValuesIn(one_model_of_each_family()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lamina::testing
