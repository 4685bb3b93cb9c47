// The rule of widen_stored. Kernels are compared with formats in tests/backends/stored_test.cc.
#include <gtest/gtest.h>

#include "ops/tensor.h"
#include "support/expect_error.h"

namespace lamina {
namespace {

TEST(WidenStored, GivesThePlainType) {
  Graph g;
  const Type plain{DType::bf16, {4, 64}, {}};
  Tensor w = g.add_input("w", plain.stored_as(formats::find_block_format(8)));
  EXPECT_EQ(ops::widen_stored(w).type(), plain);
  EXPECT_EQ(ops::widen_stored(g.add_input("p", plain)).type(), plain);
}

TEST(WidenStored, RefusesIntegers) {
  Graph g;
  Tensor ids = g.add_input("ids", {DType::i32, {4}, {}});
  EXPECT_USER_ERROR(ops::widen_stored(ids), ExitCode::usage,
                    "widen_stored: x must have a floating-point dtype, got i32[4]");
}

}  // namespace
}  // namespace lamina
