// Compares api.h with the header of cuDNN; compiled only where it is installed.
#include <cudnn.h>

#include "backends/cuda/dnn/api.h"
#include "backends/cuda/driver/same_call.h"

namespace lamina::cuda::dnn {
namespace {

#define LAMINA_CHECK(member, name) \
  static_assert(same_call<decltype(DnnApi::member), decltype(&::name)>, #name);
LAMINA_CUDNN_FUNCTIONS(LAMINA_CHECK)
#undef LAMINA_CHECK

#define LAMINA_SAME(type, value, name) static_assert(same(type::value, name), #name);
LAMINA_SAME(DnnStatus, success, CUDNN_STATUS_SUCCESS)
LAMINA_SAME(DnnStatus, not_initialized, CUDNN_STATUS_NOT_INITIALIZED)
LAMINA_SAME(DnnStatus, bad_param, CUDNN_STATUS_BAD_PARAM)
LAMINA_SAME(DnnStatus, bad_param_not_finalized, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED)
LAMINA_SAME(DnnStatus, not_supported, CUDNN_STATUS_NOT_SUPPORTED)
LAMINA_SAME(DnnStatus, internal_error, CUDNN_STATUS_INTERNAL_ERROR)
LAMINA_SAME(DnnStatus, device_allocation_failed,
            CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
LAMINA_SAME(DnnStatus, execution_failed, CUDNN_STATUS_EXECUTION_FAILED)
static_assert(same(category(DnnStatus::device_allocation_failed),
                   CUDNN_STATUS_CATEGORY(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)));

LAMINA_SAME(DnnType, f32, CUDNN_DATA_FLOAT)
LAMINA_SAME(DnnType, f16, CUDNN_DATA_HALF)
LAMINA_SAME(DnnType, i32, CUDNN_DATA_INT32)
LAMINA_SAME(DnnType, bf16, CUDNN_DATA_BFLOAT16)
LAMINA_SAME(DnnType, boolean, CUDNN_DATA_BOOLEAN)

LAMINA_SAME(PointwiseMode, add, CUDNN_POINTWISE_ADD)
LAMINA_SAME(PointwiseMode, mul, CUDNN_POINTWISE_MUL)
LAMINA_SAME(PointwiseMode, max, CUDNN_POINTWISE_MAX)
LAMINA_SAME(PointwiseMode, div, CUDNN_POINTWISE_DIV)
LAMINA_SAME(PointwiseMode, sub, CUDNN_POINTWISE_SUB)
LAMINA_SAME(PointwiseMode, exp, CUDNN_POINTWISE_EXP)
LAMINA_SAME(PointwiseMode, log, CUDNN_POINTWISE_LOG)
LAMINA_SAME(PointwiseMode, cmp_eq, CUDNN_POINTWISE_CMP_EQ)
LAMINA_SAME(PointwiseMode, cmp_gt, CUDNN_POINTWISE_CMP_GT)
LAMINA_SAME(PointwiseMode, cmp_ge, CUDNN_POINTWISE_CMP_GE)
LAMINA_SAME(PointwiseMode, cmp_lt, CUDNN_POINTWISE_CMP_LT)
LAMINA_SAME(PointwiseMode, logical_and, CUDNN_POINTWISE_LOGICAL_AND)
LAMINA_SAME(PointwiseMode, gen_index, CUDNN_POINTWISE_GEN_INDEX)
LAMINA_SAME(PointwiseMode, binary_select, CUDNN_POINTWISE_BINARY_SELECT)

LAMINA_SAME(ReductionOperator, add, CUDNN_REDUCE_TENSOR_ADD)
LAMINA_SAME(ReductionOperator, max, CUDNN_REDUCE_TENSOR_MAX)
LAMINA_SAME(HeuristicMode, a, CUDNN_HEUR_MODE_A)
LAMINA_SAME(NumericalNote, nondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)

LAMINA_SAME(DescriptorType, pointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
LAMINA_SAME(DescriptorType, engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR)
LAMINA_SAME(DescriptorType, engine_config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
LAMINA_SAME(DescriptorType, engine_heuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
LAMINA_SAME(DescriptorType, execution_plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
LAMINA_SAME(DescriptorType, operation_pointwise, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
LAMINA_SAME(DescriptorType, operation_graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
LAMINA_SAME(DescriptorType, variant_pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
LAMINA_SAME(DescriptorType, tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR)
LAMINA_SAME(DescriptorType, matmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR)
LAMINA_SAME(DescriptorType, operation_matmul, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
LAMINA_SAME(DescriptorType, reduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
LAMINA_SAME(DescriptorType, operation_reduction, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
LAMINA_SAME(DescriptorType, operation_reshape, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)

LAMINA_SAME(AttributeType, handle, CUDNN_TYPE_HANDLE)
LAMINA_SAME(AttributeType, data_type, CUDNN_TYPE_DATA_TYPE)
LAMINA_SAME(AttributeType, boolean, CUDNN_TYPE_BOOLEAN)
LAMINA_SAME(AttributeType, int64, CUDNN_TYPE_INT64)
LAMINA_SAME(AttributeType, f32, CUDNN_TYPE_FLOAT)
LAMINA_SAME(AttributeType, f64, CUDNN_TYPE_DOUBLE)
LAMINA_SAME(AttributeType, void_ptr, CUDNN_TYPE_VOID_PTR)
LAMINA_SAME(AttributeType, heuristic_mode, CUDNN_TYPE_HEUR_MODE)
LAMINA_SAME(AttributeType, numerical_note, CUDNN_TYPE_NUMERICAL_NOTE)
LAMINA_SAME(AttributeType, pointwise_mode, CUDNN_TYPE_POINTWISE_MODE)
LAMINA_SAME(AttributeType, descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR)
LAMINA_SAME(AttributeType, reduction_operator, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE)

LAMINA_SAME(Attribute, pointwise_mode, CUDNN_ATTR_POINTWISE_MODE)
LAMINA_SAME(Attribute, pointwise_math_precision, CUDNN_ATTR_POINTWISE_MATH_PREC)
LAMINA_SAME(Attribute, pointwise_axis, CUDNN_ATTR_POINTWISE_AXIS)
LAMINA_SAME(Attribute, engine_heuristic_mode, CUDNN_ATTR_ENGINEHEUR_MODE)
LAMINA_SAME(Attribute, engine_heuristic_operation_graph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
LAMINA_SAME(Attribute, engine_heuristic_results, CUDNN_ATTR_ENGINEHEUR_RESULTS)
LAMINA_SAME(Attribute, engine_config_engine, CUDNN_ATTR_ENGINECFG_ENGINE)
LAMINA_SAME(Attribute, execution_plan_handle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
LAMINA_SAME(Attribute, execution_plan_engine_config, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
LAMINA_SAME(Attribute, execution_plan_workspace_size, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
LAMINA_SAME(Attribute, operation_pointwise_descriptor, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
LAMINA_SAME(Attribute, operation_pointwise_x, CUDNN_ATTR_OPERATION_POINTWISE_XDESC)
LAMINA_SAME(Attribute, operation_pointwise_b, CUDNN_ATTR_OPERATION_POINTWISE_BDESC)
LAMINA_SAME(Attribute, operation_pointwise_y, CUDNN_ATTR_OPERATION_POINTWISE_YDESC)
LAMINA_SAME(Attribute, operation_pointwise_t, CUDNN_ATTR_OPERATION_POINTWISE_TDESC)
LAMINA_SAME(Attribute, operation_graph_handle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE)
LAMINA_SAME(Attribute, operation_graph_operations, CUDNN_ATTR_OPERATIONGRAPH_OPS)
LAMINA_SAME(Attribute, tensor_byte_alignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)
LAMINA_SAME(Attribute, tensor_data_type, CUDNN_ATTR_TENSOR_DATA_TYPE)
LAMINA_SAME(Attribute, tensor_dimensions, CUDNN_ATTR_TENSOR_DIMENSIONS)
LAMINA_SAME(Attribute, tensor_strides, CUDNN_ATTR_TENSOR_STRIDES)
LAMINA_SAME(Attribute, tensor_unique_id, CUDNN_ATTR_TENSOR_UNIQUE_ID)
LAMINA_SAME(Attribute, tensor_is_virtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL)
LAMINA_SAME(Attribute, tensor_is_by_value, CUDNN_ATTR_TENSOR_IS_BY_VALUE)
LAMINA_SAME(Attribute, variant_pack_unique_ids, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)
LAMINA_SAME(Attribute, variant_pack_data_pointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)
LAMINA_SAME(Attribute, variant_pack_workspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
LAMINA_SAME(Attribute, engine_numerical_note, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE)
LAMINA_SAME(Attribute, matmul_compute_type, CUDNN_ATTR_MATMUL_COMP_TYPE)
LAMINA_SAME(Attribute, matmul_padding_value, CUDNN_ATTR_MATMUL_PADDING_VALUE)
LAMINA_SAME(Attribute, operation_matmul_a, CUDNN_ATTR_OPERATION_MATMUL_ADESC)
LAMINA_SAME(Attribute, operation_matmul_b, CUDNN_ATTR_OPERATION_MATMUL_BDESC)
LAMINA_SAME(Attribute, operation_matmul_c, CUDNN_ATTR_OPERATION_MATMUL_CDESC)
LAMINA_SAME(Attribute, operation_matmul_descriptor, CUDNN_ATTR_OPERATION_MATMUL_DESC)
LAMINA_SAME(Attribute, operation_matmul_m_override,
            CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC)
LAMINA_SAME(Attribute, operation_matmul_n_override,
            CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC)
LAMINA_SAME(Attribute, operation_matmul_k_override,
            CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC)
LAMINA_SAME(Attribute, reduction_operator, CUDNN_ATTR_REDUCTION_OPERATOR)
LAMINA_SAME(Attribute, reduction_compute_type, CUDNN_ATTR_REDUCTION_COMP_TYPE)
LAMINA_SAME(Attribute, operation_reduction_x, CUDNN_ATTR_OPERATION_REDUCTION_XDESC)
LAMINA_SAME(Attribute, operation_reduction_y, CUDNN_ATTR_OPERATION_REDUCTION_YDESC)
LAMINA_SAME(Attribute, operation_reduction_descriptor, CUDNN_ATTR_OPERATION_REDUCTION_DESC)
LAMINA_SAME(Attribute, operation_reshape_x, CUDNN_ATTR_OPERATION_RESHAPE_XDESC)
LAMINA_SAME(Attribute, operation_reshape_y, CUDNN_ATTR_OPERATION_RESHAPE_YDESC)
#undef LAMINA_SAME

}  // namespace
}  // namespace lamina::cuda::dnn
