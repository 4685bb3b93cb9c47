// Attention of many rows, on the emulated GPU.
#include "cuda/run_op.h"

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

}  // namespace
}  // namespace lamina::testing
