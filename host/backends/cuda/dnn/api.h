// The functions, types and values of cuDNN in use, declared from NVIDIA's documentation of its
// backend API, so that the host builds without the CUDA toolkit. header_check.cc compares them with
// cudnn.h where it is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lamina::cuda::dnn {

struct HandleObject;
using DnnHandle = HandleObject*;  // cudnnHandle_t
using Descriptor = void*;         // cudnnBackendDescriptor_t
using DnnStream = void*;          // cudaStream_t, CUstream

// cudnnStatus_t. The thousands are the category of an error.
enum class DnnStatus : std::int32_t {
  success = 0,
  not_initialized = 1001,
  bad_param = 2000,
  bad_param_not_finalized = 2004,
  not_supported = 3000,
  internal_error = 4000,
  device_allocation_failed = 4004,
  execution_failed = 5000,
};
constexpr DnnStatus category(DnnStatus status) {
  return static_cast<DnnStatus>(static_cast<std::int32_t>(status) / 1000 * 1000);
}

enum class DnnType : std::int32_t { f32 = 0, f16 = 2, i32 = 4, bf16 = 9, boolean = 11 };

enum class PointwiseMode : std::int32_t {
  add = 0,
  mul = 1,
  max = 3,
  div = 6,
  sub = 9,
  exp = 13,
  log = 15,
  cmp_eq = 300,
  cmp_gt = 302,
  cmp_ge = 303,
  cmp_lt = 304,
  logical_and = 400,
  gen_index = 501,
  binary_select = 601,  // t ? x : b
};

enum class ReductionOperator : std::int32_t { add = 0, max = 3 };
enum class HeuristicMode : std::int32_t { a = 3 };
enum class NumericalNote : std::int32_t { nondeterministic = 4 };

enum class DescriptorType : std::int32_t {
  pointwise = 0,
  engine = 2,
  engine_config = 3,
  engine_heuristic = 4,
  execution_plan = 5,
  operation_pointwise = 13,
  operation_graph = 15,
  variant_pack = 16,
  tensor = 17,
  matmul = 18,
  operation_matmul = 19,
  reduction = 21,
  operation_reduction = 22,
  operation_reshape = 31,
};

enum class AttributeType : std::int32_t {
  handle = 0,
  data_type = 1,
  boolean = 2,
  int64 = 3,
  f32 = 4,
  f64 = 5,
  void_ptr = 6,
  heuristic_mode = 8,
  numerical_note = 11,
  pointwise_mode = 14,
  descriptor = 15,
  reduction_operator = 18,
};

enum class Attribute : std::int32_t {
  pointwise_mode = 0,
  pointwise_math_precision = 1,
  pointwise_axis = 9,
  engine_heuristic_mode = 200,
  engine_heuristic_operation_graph = 201,
  engine_heuristic_results = 202,
  engine_config_engine = 300,
  execution_plan_handle = 400,
  execution_plan_engine_config = 401,
  execution_plan_workspace_size = 402,
  operation_pointwise_descriptor = 750,
  operation_pointwise_x = 751,
  operation_pointwise_b = 752,
  operation_pointwise_y = 753,
  operation_pointwise_t = 758,
  operation_graph_handle = 800,
  operation_graph_operations = 801,
  tensor_byte_alignment = 900,
  tensor_data_type = 901,
  tensor_dimensions = 902,
  tensor_strides = 903,
  tensor_unique_id = 906,
  tensor_is_virtual = 907,
  tensor_is_by_value = 908,
  variant_pack_unique_ids = 1000,
  variant_pack_data_pointers = 1001,
  variant_pack_workspace = 1003,
  engine_numerical_note = 1303,
  matmul_compute_type = 1500,
  matmul_padding_value = 1503,
  operation_matmul_a = 1520,
  operation_matmul_b = 1521,
  operation_matmul_c = 1522,
  operation_matmul_descriptor = 1523,
  operation_matmul_m_override = 1525,
  operation_matmul_n_override = 1526,
  operation_matmul_k_override = 1527,
  reduction_operator = 1600,
  reduction_compute_type = 1601,
  operation_reduction_x = 1610,
  operation_reduction_y = 1611,
  operation_reduction_descriptor = 1612,
  operation_reshape_x = 2200,
  operation_reshape_y = 2201,
};

struct DnnApi {
  DnnStatus (*create)(DnnHandle*);
  DnnStatus (*destroy)(DnnHandle);
  DnnStatus (*set_stream)(DnnHandle, DnnStream);
  std::size_t (*version)();       // 91900 is 9.19.0
  std::size_t (*cuda_version)();  // of the toolkit that it was built with; 12090 is 12.9
  const char* (*status_text)(DnnStatus);
  void (*last_error)(char* text, std::size_t bytes);  // of this thread

  DnnStatus (*create_descriptor)(DescriptorType, Descriptor*);
  DnnStatus (*destroy_descriptor)(Descriptor);
  DnnStatus (*finalize)(Descriptor);
  DnnStatus (*set_attribute)(Descriptor, Attribute, AttributeType, std::int64_t count,
                             const void* values);
  DnnStatus (*get_attribute)(Descriptor, Attribute, AttributeType, std::int64_t most,
                             std::int64_t* count, void* values);
  DnnStatus (*execute)(DnnHandle, Descriptor plan, Descriptor variant_pack);
};

// The names of the functions in the library.
#define LAMINA_CUDNN_FUNCTIONS(X)                      \
  X(create, cudnnCreate)                               \
  X(destroy, cudnnDestroy)                             \
  X(set_stream, cudnnSetStream)                        \
  X(version, cudnnGetVersion)                          \
  X(cuda_version, cudnnGetCudartVersion)               \
  X(status_text, cudnnGetErrorString)                  \
  X(last_error, cudnnGetLastErrorString)               \
  X(create_descriptor, cudnnBackendCreateDescriptor)   \
  X(destroy_descriptor, cudnnBackendDestroyDescriptor) \
  X(finalize, cudnnBackendFinalize)                    \
  X(set_attribute, cudnnBackendSetAttribute)           \
  X(get_attribute, cudnnBackendGetAttribute)           \
  X(execute, cudnnBackendExecute)

}  // namespace lamina::cuda::dnn
