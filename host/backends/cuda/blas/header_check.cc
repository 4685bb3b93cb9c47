// Compares api.h with the header of the toolkit; compiled only where the toolkit is installed.
#include <cublasLt.h>

#include "backends/cuda/blas/api.h"
#include "backends/cuda/driver/same_call.h"

namespace lamina::cuda::blas {
namespace {

#define LAMINA_CHECK(member, name) \
  static_assert(same_call<decltype(Api::member), decltype(&::name)>, #name);
LAMINA_CUBLASLT_FUNCTIONS(LAMINA_CHECK)
#undef LAMINA_CHECK

static_assert(static_cast<int>(Status::success) == CUBLAS_STATUS_SUCCESS);
static_assert(static_cast<int>(Status::not_initialized) == CUBLAS_STATUS_NOT_INITIALIZED);
static_assert(static_cast<int>(Status::alloc_failed) == CUBLAS_STATUS_ALLOC_FAILED);
static_assert(static_cast<int>(Status::invalid_value) == CUBLAS_STATUS_INVALID_VALUE);
static_assert(static_cast<int>(Status::arch_mismatch) == CUBLAS_STATUS_ARCH_MISMATCH);
static_assert(static_cast<int>(Status::execution_failed) == CUBLAS_STATUS_EXECUTION_FAILED);
static_assert(static_cast<int>(Status::internal_error) == CUBLAS_STATUS_INTERNAL_ERROR);
static_assert(static_cast<int>(Status::not_supported) == CUBLAS_STATUS_NOT_SUPPORTED);

static_assert(static_cast<int>(DataType::r_32f) == CUDA_R_32F);
static_assert(static_cast<int>(DataType::r_64f) == CUDA_R_64F);
static_assert(static_cast<int>(DataType::r_16f) == CUDA_R_16F);
static_assert(static_cast<int>(DataType::r_16bf) == CUDA_R_16BF);
static_assert(static_cast<int>(DataType::r_8f_e4m3) == CUDA_R_8F_E4M3);
static_assert(static_cast<int>(ComputeType::f32) == CUBLAS_COMPUTE_32F);
static_assert(static_cast<int>(ComputeType::f64) == CUBLAS_COMPUTE_64F);
static_assert(static_cast<int>(ComputeType::tf32) == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(static_cast<int>(Transpose::none) == CUBLAS_OP_N);
static_assert(static_cast<int>(Transpose::transposed) == CUBLAS_OP_T);
static_assert(static_cast<int>(Epilogue::none) == CUBLASLT_EPILOGUE_DEFAULT);
static_assert(static_cast<int>(Epilogue::bias) == CUBLASLT_EPILOGUE_BIAS);

using OA = OperationAttribute;
static_assert(static_cast<int>(OA::transpose_a) == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(static_cast<int>(OA::transpose_b) == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(static_cast<int>(OA::epilogue) == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(static_cast<int>(OA::bias_pointer) == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(static_cast<int>(OA::a_scale_pointer) == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
static_assert(static_cast<int>(OA::b_scale_pointer) == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
static_assert(static_cast<int>(OA::bias_type) == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
#if CUBLAS_VERSION >= 120900  // kScalesOf128Since
static_assert(static_cast<int>(OA::a_scale_mode) == CUBLASLT_MATMUL_DESC_A_SCALE_MODE);
static_assert(static_cast<int>(OA::b_scale_mode) == CUBLASLT_MATMUL_DESC_B_SCALE_MODE);
static_assert(static_cast<int>(ScaleMode::one) == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F);
static_assert(static_cast<int>(ScaleMode::of_128_values) ==
              CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
#endif

using LA = LayoutAttribute;
static_assert(static_cast<int>(LA::batch_count) == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
static_assert(static_cast<int>(LA::batch_stride) == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);

using PA = PreferenceAttribute;
static_assert(static_cast<int>(PA::max_workspace_bytes) ==
              CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(static_cast<int>(PA::reduction_schemes) ==
              CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(static_cast<int>(PA::min_alignment_a) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(static_cast<int>(PA::min_alignment_b) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
static_assert(static_cast<int>(PA::min_alignment_c) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
static_assert(static_cast<int>(PA::min_alignment_d) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);

static_assert(kReductionNone == static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
static_assert(kReductionInPlace == static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_INPLACE));
static_assert(kReductionComputeType ==
              static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
static_assert(kReductionOutputType ==
              static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
static_assert(static_cast<int>(AlgorithmProperty::out_of_place) ==
              CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT);

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(Candidate) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(Candidate, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(Candidate, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(Candidate, waves) == offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));

}  // namespace
}  // namespace lamina::cuda::blas
