// The index space of maps, and the translation of nodes to programs.
#include <gtest/gtest.h>

#include <array>

#include "graph/graph.h"
#include "ops/op.h"
#include "ops/registry.h"
#include "runtime/map/dims.h"
#include "runtime/map/translate.h"

namespace lamina {
namespace {

TEST(MergeDims, JoinsDimsThatAllOperandsWalkEvenly) {
  MapStrides matrix = {105, 35, 7, 1}, row = {0, 0, 7, 1};
  const std::array<MapStrides*, 2> operands = {&matrix, &row};
  const MergedDims merged = merge_dims({2, 3, 5, 7}, operands);
  EXPECT_EQ(merged.ndim, 2);
  EXPECT_EQ(merged.dims[0], 6);
  EXPECT_EQ(merged.dims[1], 35);
  EXPECT_EQ(merged.num_elements, 210);
  EXPECT_TRUE(merged.contiguous(matrix));
  EXPECT_FALSE(merged.contiguous(row));
  EXPECT_EQ(row[0], 0);
  EXPECT_EQ(row[1], 1);
}

TEST(MergeDims, KeepsOneDimOfOneElement) {
  MapStrides strides = {1, 1};
  const std::array<MapStrides*, 1> operands = {&strides};
  const MergedDims merged = merge_dims({1, 1}, operands);
  EXPECT_EQ(merged.ndim, 1);
  EXPECT_EQ(merged.dims[0], 1);
  EXPECT_TRUE(merged.scalar(strides));
}

TEST(MapTranslation, GivesEachOpOneInstructionInItsType) {
  Graph graph;
  const Tensor x = graph.add_input("x", Type{DType::bf16, {4, 6}, {}});
  const Tensor row = graph.add_input("row", Type{DType::bf16, {6}, {}});
  graph.add_output("y", x * row);
  const Node& node = graph.nodes().front();
  with_node_view(graph, node, [&](const NodeView& view) {
    ASSERT_TRUE(map_supports(view));
    const MapProgram program = map_program(view);
    ASSERT_EQ(program.instructions.size(), 1u);
    EXPECT_EQ(program.instructions[0].op, MapOp::mul);
    EXPECT_EQ(program.instructions[0].dtype, DType::bf16);
    EXPECT_EQ(program.inputs[1].strides[0], 0);
    EXPECT_EQ(program.inputs[1].strides[1], 1);
    EXPECT_EQ(program.outputs[0].reg, program.instructions[0].dst);
  });
}

}  // namespace
}  // namespace lamina
