// fused_map: a fused chain is bit-equal to the separate ops.
#include <gtest/gtest.h>

#include <array>

#include "ops/op.h"
#include "ops/registry.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

// cast(silu(a) * b + row, bf16) and its negative, as ops of `g`.
std::vector<Tensor> chain(Tensor a, Tensor b, Tensor row) {
  Tensor y = ops::call("silu", {a}) * b + row;
  return {y, -y, ops::cast(ops::cast(y, DType::f32) * ops::cast(a, DType::f32), DType::bf16)};
}

class FusedMap : public ::testing::TestWithParam<DType> {};

TEST_P(FusedMap, HasTheBitsOfItsOpsOneByOne) {
  const Type matrix{GetParam(), {5, 37}, {}}, vector{GetParam(), {37}, {}};
  auto body = std::make_shared<Graph>();
  Graph plain, fused;
  std::vector<Tensor> in_body, in_plain, in_fused;
  for (const Type& type : {matrix, matrix, vector}) {
    in_body.push_back(body->add_input("x", type));
    in_plain.push_back(plain.add_input("x", type));
    in_fused.push_back(fused.add_input("x", type));
  }
  for (Tensor t : chain(in_body[0], in_body[1], in_body[2])) body->add_output("y", t);
  for (Tensor t : chain(in_plain[0], in_plain[1], in_plain[2])) plain.add_output("y", t);
  std::pair<std::string_view, AttrValue> attr{"body", std::shared_ptr<const Graph>(body)};
  for (Tensor t : fused.add_node(ops::get("fused_map"), in_fused, std::span(&attr, 1)))
    fused.add_output("y", t);

  std::mt19937 random(3);
  std::vector<Array> inputs = {random_array(matrix, random), random_array(matrix, random),
                               random_array(vector, random)};
  std::vector<Array> want = run_unoptimized(plain, inputs), got = run_unoptimized(fused, inputs);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(want[i].bytes, got[i].bytes) << i;
}

INSTANTIATE_TEST_SUITE_P(Dtypes, FusedMap,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16, DType::f64),
                         [](const auto& test) { return std::string(name(test.param)); });

// Registers are wider than these types.
TEST(FusedMap, NegativesOfNarrowIntegersWrap) {
  const struct {
    DType dtype;
    double x, negative;
  } cases[] = {{DType::u8, 1, 255},
               {DType::i8, -128, -128},
               {DType::u16, 1, 65535},
               {DType::i16, -32768, -32768},
               {DType::u32, 1, 4294967295.0}};
  for (const auto& [dtype, x, negative] : cases) {
    const Type wide{DType::i64, {3}, {}};
    auto body = std::make_shared<Graph>();
    const Tensor narrow = ops::cast(body->add_input("x", wide), dtype);
    body->add_output("y", ops::cast(-narrow, DType::i64));
    Graph g;
    const Tensor in = g.add_input("x", wide);
    const std::pair<std::string_view, AttrValue> attr{"body", std::shared_ptr<const Graph>(body)};
    g.add_output("y", g.add_node(ops::get("fused_map"), std::array{in}, std::span(&attr, 1))[0]);
    EXPECT_EQ(get(run_unoptimized(g, {array(wide, {x, x, x})})[0], 2), negative) << name(dtype);
  }
}

}  // namespace
}  // namespace lamina::testing
