// The fake cuDNN.
#include "backends/cuda/emulation/dnn.h"

#include <array>

#include "backends/cuda/dnn/graph.h"
#include "cuda/gpu_memory.h"
#include "support/expect_error.h"

namespace lamina::testing {
namespace {

using namespace cuda::dnn;

const DnnApi& dnn_api() { return *cuda::emulation::dnn_opened().api; }

void expect_refusal(DnnStatus status, DnnStatus expected, const std::string& text) {
  EXPECT_EQ(status, expected);
  std::array<char, 256> said = {};
  dnn_api().last_error(said.data(), said.size());
  EXPECT_EQ(std::string(said.data()), text);
}

DnnLibrary& library() { return gpu_context().dnn(); }

// y = x x of f16[1, 1, 8, 8] by the functions themselves.
class RawGraph {
 public:
  RawGraph() {
    const GraphTensor a = g.tensor(DnnType::f16, kDims, dense(kDims));
    const GraphTensor y = g.tensor(DnnType::f16, kDims, dense(kDims));
    g.matmul(a, a, y, {});
    x_id = a.id;
    y_id = y.id;
  }
  static constexpr Dims kDims = {1, 1, 8, 8};
  DnnGraphBuilder g{library()};
  std::int64_t x_id = 0, y_id = 0;
};

TEST(EmulatedCudnn, Example) {
  RawGraph raw;
  const PlanResult made = raw.g.plan();
  ASSERT_TRUE(made.plan) << made.why_not;
  const Type type{DType::f16, {8, 8}, {}};
  Array ones = zeros(type);
  for (std::int64_t i = 0; i < 64; ++i) set(ones, i, 1);
  const GpuMemory x(ones), y(zeros(type));
  made.plan->run(library(), gpu_queue().stream(), {raw.x_id, raw.y_id}, {x.pointer(), y.pointer()},
                 nullptr);
  EXPECT_EQ(get(y.array(type), 9), 8);
}

TEST(EmulatedCudnn, RefusesPlacesThatAreMissingOrNotAligned) {
  RawGraph raw;
  const PlanResult made = raw.g.plan();
  ASSERT_TRUE(made.plan);
  const GpuMemory x(128), y(128), shifted(128, 2);
  const auto run = [&](std::vector<std::int64_t> ids, std::vector<void*> places) {
    made.plan->run(library(), gpu_queue().stream(), std::move(ids), std::move(places), nullptr);
  };
  EXPECT_ERROR_SAYS(run({raw.x_id}, {x.pointer()}), ExitCode::unclassified,
                    "cuDNN says: the pack has no place for tensor 2");
  EXPECT_ERROR_SAYS(run({raw.x_id, raw.y_id}, {x.pointer(), shifted.pointer()}),
                    ExitCode::unclassified, "cuDNN says: tensor 2 is not aligned to 16 bytes");
  EXPECT_ERROR_SAYS(run({raw.x_id, raw.y_id, 7}, {x.pointer(), y.pointer(), y.pointer()}),
                    ExitCode::unclassified,
                    "cuDNN says: the pack has the id 7, which no tensor in memory has");
  EXPECT_ERROR_SAYS(run({raw.x_id, raw.x_id}, {x.pointer(), y.pointer()}), ExitCode::unclassified,
                    "cuDNN says: an id occurs twice in a pack");
}

TEST(EmulatedCudnn, RefusesShapesThatDoNotFit) {
  DnnGraphBuilder g(library());
  const Dims wide = {1, 1, 8, 16};
  const GraphTensor a = g.tensor(DnnType::f16, wide, dense(wide));
  const GraphTensor y = g.tensor(DnnType::f16, RawGraph::kDims, dense(RawGraph::kDims));
  EXPECT_ERROR_SAYS(g.matmul(a, a, y, {}), ExitCode::unclassified,
                    "cuDNN says: a product of 8 x 16 and 8 x 16 into 8 x 8");
}

TEST(EmulatedCudnn, HasNoEngineForOtherWidthsAndTypes) {
  for (const auto& [type, width] : {std::pair{DnnType::f16, 12}, {DnnType::f32, 16}}) {
    DnnGraphBuilder g(library());
    const Dims dims = {1, 1, width, width};
    const GraphTensor a = g.tensor(type, dims, dense(dims)), y = g.tensor(type, dims, dense(dims));
    g.matmul(a, a, y, {});
    EXPECT_EQ(g.plan().why_not, "no engine takes the graph");
  }
}

TEST(EmulatedCudnn, KeepsTheOrderOfDescriptors) {
  Descriptor tensor = nullptr;
  EXPECT_EQ(dnn_api().create_descriptor(DescriptorType::tensor, &tensor), DnnStatus::success);
  std::int64_t count = 0, value = 0;
  expect_refusal(dnn_api().get_attribute(tensor, Attribute::tensor_unique_id, AttributeType::int64,
                                         1, &count, &value),
                 DnnStatus::bad_param_not_finalized, "reads a descriptor that is not finalized");
  expect_refusal(dnn_api().finalize(tensor), DnnStatus::bad_param, "attribute 901 is not set");
  expect_refusal(
      dnn_api().set_attribute(tensor, Attribute::tensor_unique_id, AttributeType::f32, 1, &value),
      DnnStatus::bad_param, "attribute 906 is set to 1 values of type 4; it has 1 to 1 of type 3");
  expect_refusal(
      dnn_api().set_attribute(tensor, Attribute::pointwise_mode, AttributeType::int64, 1, &value),
      DnnStatus::bad_param, "descriptors of type 17 have no attribute 0");
  Descriptor operation = nullptr;
  EXPECT_EQ(dnn_api().create_descriptor(DescriptorType::operation_reshape, &operation),
            DnnStatus::success);
  expect_refusal(dnn_api().set_attribute(operation, Attribute::operation_reshape_x,
                                         AttributeType::descriptor, 1, &tensor),
                 DnnStatus::bad_param_not_finalized, "uses a descriptor that is not finalized");
  EXPECT_EQ(dnn_api().destroy_descriptor(operation), DnnStatus::success);
  EXPECT_EQ(dnn_api().destroy_descriptor(tensor), DnnStatus::success);
  expect_refusal(dnn_api().destroy_descriptor(tensor), DnnStatus::bad_param,
                 "destroys a descriptor that does not exist");
}

}  // namespace
}  // namespace lamina::testing
