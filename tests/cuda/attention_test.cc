// Attention of many rows, on the emulated GPU.
#include <cmath>

#include "cuda/run_op.h"
#include "ops/operands.h"

namespace lamina::testing {
namespace {

TEST(AttentionOfTheGpu, ManyRowsThatAreNotAlignedGiveTheSameBits) {
  for (const std::int64_t width : {64, 128}) {
    std::vector<Array> inputs;
    for (const unsigned seed : {1, 2, 3})
      inputs.push_back(random_values({DType::bf16, {1, 150, 1, width}, {}}, seed));
    const std::vector<Array> aligned = run_op("attention", "tiles", inputs),
                             shifted = run_op("attention", "tiles", inputs, 4);
    EXPECT_EQ(shifted[0].bytes, aligned[0].bytes) << "width " << width;
    EXPECT_EQ(shifted[1].bytes, aligned[1].bytes) << "width " << width;
  }
}

// Padding of a row that is full, as in a batch with longer rows. It has no visible key, and the one
// after the last would be past the state.
TEST(AttentionOfTheGpu, ATokenWhoseWindowIsPastTheCapacityReadsNoKey) {
  namespace in = operand::attention;
  const Type keys{DType::bf16, {1, 24, 1, 64}, {}};
  std::vector<Array> inputs(ops::get("attention").inputs.size());
  inputs[in::kQ] = random_values({DType::bf16, {1, 1, 1, 64}, {}}, 1);
  inputs[in::kK] = random_values(keys, 2);
  inputs[in::kV] = random_values(keys, 3);
  for (const int start : {24, 26}) {
    inputs[in::kStart] = array({DType::i32, {1}, {}}, {static_cast<double>(start)});
    const std::pair<std::string_view, AttrValue> window{"window", std::int64_t{start - 23}};
    const std::vector<Array> results =
        run_op("attention", "one token", inputs, 0, std::span(&window, 1));
    EXPECT_EQ(to_doubles(results[0]), std::vector<double>(64, 0));
    EXPECT_EQ(get(results[1], 0), -INFINITY);
  }
}

// Products of the heads with the keys: 3, NaN, -2 and -1, NaN, 0.
TEST(AttentionOfTheGpu, ScoresOfAnIndexerKeepANaN) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(name(dtype));
    const std::vector<Array> inputs = {array({dtype, {1, 1, 2, 2}, {}}, {1, 2, -1, 0}),
                                       array({dtype, {1, 3, 2}, {}}, {1, 1, NAN, 0, 0, -1}),
                                       array({DType::f32, {1, 1, 2}, {}}, {0.5, 2}),
                                       array({DType::f32, {1, 1, 3}, {}}, {1, 1, 1})};
    const Array scores = run_op("index_scores", "tiles", {inputs[0], inputs[1], inputs[2]}).at(0);
    EXPECT_EQ(get(scores, 0), 1.5);
    EXPECT_TRUE(std::isnan(get(scores, 1)));
    EXPECT_EQ(get(scores, 2), 0);
    const Array dweights = run_op("index_scores_grad", "tiles", inputs).at(2);
    EXPECT_TRUE(std::isnan(get(dweights, 0)) && std::isnan(get(dweights, 1)));
  }
}

}  // namespace
}  // namespace lamina::testing
