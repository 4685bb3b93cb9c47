// Types of values that are stored in blocks.
#include <gtest/gtest.h>

#include "ops/tensor.h"
#include "support/expect_error.h"

namespace lamina {
namespace {

const formats::BlockFormat* q8_0() { return formats::find_block_format(8); }

Type stored(Shape shape) { return Type{DType::bf16, shape, {}}.stored_as(q8_0()); }

TEST(StoredType, BytesCountTheBlocks) {
  EXPECT_EQ(stored({3, 64}).bytes(), 3 * 2 * 34);
  EXPECT_EQ(stored({3, 64}).num_elements(), 192);
}

TEST(StoredType, IsPrintedWithItsFormat) {
  EXPECT_EQ(to_string(stored({3, 64})), "bf16[3, 64] in Q8_0");
}

TEST(StoredType, DiffersFromThePlainType) {
  EXPECT_NE(stored({3, 64}), (Type{DType::bf16, {3, 64}, {}}));
  EXPECT_EQ(stored({3, 64}), stored({3, 64}));
}

TEST(StoredType, AnotherShapeOrElementTypeIsPlain) {
  EXPECT_EQ(stored({3, 64}).with(DType::f32).storage, nullptr);
  EXPECT_EQ(stored({3, 64}).with(Shape{192}).storage, nullptr);
}

TEST(StoredType, ProductsReadStoredWeights) {
  Graph g;
  Tensor x = g.add_input("x", {DType::bf16, {2, 64}, {}});
  g.add_output("y", ops::linear(x, g.add_input("w", stored({3, 64}))));
  EXPECT_NO_THROW(verify(g, "storing"));
  EXPECT_EQ(to_string(g.type(g.outputs()[0].value)), "bf16[2, 3]");
}

TEST(StoredType, VerificationRefusesOpsThatNeedPlainValues) {
  Graph g;
  g.add_output("y", ops::exp(g.add_input("w", stored({3, 64}))));
  EXPECT_ERROR_SAYS(verify(g, "storing"), ExitCode::unclassified,
                    "graph after storing: node 0 (exp) has input 0 (bf16[3, 64] in Q8_0), which it "
                    "cannot read");
}

}  // namespace
}  // namespace lamina
