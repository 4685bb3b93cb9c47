// Weights that the host changes: computed in f64 and rounded once.
#include "train/optimizer/weight_changes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/cpu/backend.h"
#include "core/float16.h"
#include "decoder/stack/parameter.h"
#include "runtime/host_access.h"
#include "train/optimizer/gradient_tensors.h"

namespace lamina::testing {
namespace {

// Two parameters, [3, 2] and [4].
struct Two {
  decoder::ParameterTable table;
  std::optional<train::TrainState> state;
  program::ProgramArena arena{cpu::cpu_backend()};

  explicit Two(DType compute = DType::f32) {
    for (const auto& [name, shape] : {std::pair{"p", Shape{{3, 2}}}, std::pair{"q", Shape{{4}}}}) {
      decoder::Parameter p;
      p.name = name;
      p.desc.shape = shape;
      table.add(p);
    }
    state.emplace(table, compute, false, cpu::cpu_backend());
    for (std::size_t i = 0; i < 6; ++i)
      host_view<float>(state->masters()[0])[i] = 0.1F * static_cast<float>(i + 1);
    state->refresh_copies();
  }
  std::vector<float> first() const {
    return copy_to_host<float>(state->queue(), state->masters()[0]);
  }
};

TEST(WeightChanges, RowsTakeTheirFactorsAndOnesChangeNothing) {
  Two two;
  const std::vector<float> before = two.first();
  const std::vector<double> factors{1, 1.0 / 3, 1};
  train::WeightChanges(two.table, *two.state, two.arena).scale_rows(0, factors);
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_EQ(two.first()[i], static_cast<float>(static_cast<double>(before[i]) * factors[i / 2]));
}

TEST(WeightChanges, ASumIsRoundedOnceAndReachesTheCopy) {
  Two two(DType::bf16);
  const std::vector<float> before = two.first();
  const std::vector<double> change(6, 1e-9 + 1.0 / 3);
  train::WeightChanges(two.table, *two.state, two.arena).add(0, change);
  const std::vector<bfloat16> copy =
      copy_to_host<bfloat16>(two.state->queue(), two.state->used()[0]);
  for (std::size_t i = 0; i < 6; ++i) {
    const auto want = static_cast<float>(static_cast<double>(before[i]) + change[i]);
    EXPECT_EQ(two.first()[i], want);
    EXPECT_EQ(to_float(copy[i]), to_float(to_bfloat16(want)));
  }
}

TEST(WeightChanges, AnObserverIsCalledBeforeAChange) {
  Two two;
  std::vector<float> seen;
  two.state->set_observer([&](int parameter) {
    EXPECT_EQ(parameter, 0);
    seen = two.first();
  });
  const std::vector<float> before = two.first();
  train::WeightChanges(two.table, *two.state, two.arena).assign(0, std::vector<double>(6, 7));
  EXPECT_EQ(seen, before);
  EXPECT_EQ(two.first(), std::vector<float>(6, 7));
}

TEST(GradientTensors, SumsOfSquaresOfAllParametersComeTogether) {
  Two two;
  const std::span<float> first = host_view<float>(two.state->gradients()[0]),
                         second = host_view<float>(two.state->gradients()[1]);
  for (std::size_t i = 0; i < 6; ++i) first[i] = static_cast<float>(i);
  std::ranges::fill(second, 2);
  train::GradientTensors gradients(two.table, two.arena);
  EXPECT_EQ(gradients.sums_of_squares(*two.state), (std::vector<double>{55, 16}));
  EXPECT_EQ(gradients.sum_of_squares(*two.state, 1), 16);
}

}  // namespace
}  // namespace lamina::testing
