// The functions, types and values of cuBLASLt in use, declared from NVIDIA's documentation, so that
// the host builds without the CUDA toolkit. header_check.cc compares them with cublasLt.h where the
// toolkit is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lamina::cuda::blas {

struct HandleObject;
struct OperationObject;
struct LayoutObject;
struct PreferenceObject;
using Handle = HandleObject*;          // cublasLtHandle_t
using Operation = OperationObject*;    // cublasLtMatmulDesc_t
using MatrixLayout = LayoutObject*;    // cublasLtMatrixLayout_t
using Preference = PreferenceObject*;  // cublasLtMatmulPreference_t
using Stream = void*;                  // cudaStream_t, CUstream

enum class Status : std::int32_t {  // cublasStatus_t
  success = 0,
  not_initialized = 1,
  alloc_failed = 3,
  invalid_value = 7,
  arch_mismatch = 8,
  execution_failed = 13,
  internal_error = 14,
  not_supported = 15,
};

enum class DataType : std::int32_t { r_32f = 0, r_64f = 1, r_16f = 2, r_16bf = 14, r_8f_e4m3 = 28 };
enum class ComputeType : std::int32_t {
  f32 = 68,  // without tf32
  f64 = 70,
  tf32 = 77,  // f32 operands are rounded to 11 significant bits; sums in f32
};
enum class Transpose : std::int32_t { none = 0, transposed = 1 };
enum class Epilogue : std::int32_t { none = 1, bias = 4 };

enum class OperationAttribute : std::int32_t {
  transpose_a = 3,       // Transpose
  transpose_b = 4,       // Transpose
  epilogue = 7,          // Epilogue
  bias_pointer = 8,      // a device address, as the next two
  a_scale_pointer = 17,  // aligned to 16 bytes
  b_scale_pointer = 18,
  bias_type = 26,     // DataType
  a_scale_mode = 31,  // ScaleMode; both since kScalesOf128Since
  b_scale_mode = 32,
};

// The scales of an FP8 operand, in f32.
enum class ScaleMode : std::int32_t {
  one = 0,
  // One for 128 values along k: [k / 128][m] of A, [k / 128][n] of B. On compute capability 9.0
  // only.
  of_128_values = 4,
};
inline constexpr std::size_t kScalesOf128Since = 120900;  // version(): CUDA 12.9

// Layouts are in column-major order unless it is changed.
enum class LayoutAttribute : std::int32_t {
  batch_count = 5,   // int32
  batch_stride = 6,  // int64, elements
};

enum class PreferenceAttribute : std::int32_t {
  max_workspace_bytes = 1,  // uint64
  reduction_schemes = 3,    // uint32, a mask of ReductionScheme
  min_alignment_a = 5,      // uint32, bytes, as the next three
  min_alignment_b = 6,
  min_alignment_c = 7,
  min_alignment_d = 8,
};

// Ways to add the parts of a sum over k that is divided among blocks.
enum ReductionScheme : std::uint32_t {
  kReductionNone = 0,
  kReductionInPlace = 1,  // in the order in which blocks end: not deterministic
  kReductionComputeType = 2,
  kReductionOutputType = 4,
};

enum class AlgorithmProperty : std::int32_t { out_of_place = 4 };  // int32: C and D may differ

struct Algorithm {  // cublasLtMatmulAlgo_t; valid for one version of the library
  std::uint64_t data[8];
};

struct Candidate {  // cublasLtMatmulHeuristicResult_t
  Algorithm algorithm;
  std::size_t workspace_bytes;
  Status state;
  float waves;
  std::int32_t reserved[4];
};

struct Api {
  Status (*create)(Handle*);
  Status (*destroy)(Handle);
  std::size_t (*version)();
  const char* (*status_text)(Status);

  Status (*create_operation)(Operation*, ComputeType, DataType scale);
  Status (*destroy_operation)(Operation);
  Status (*set_operation)(Operation, OperationAttribute, const void* value, std::size_t bytes);

  Status (*create_layout)(MatrixLayout*, DataType, std::uint64_t rows, std::uint64_t columns,
                          std::int64_t leading);
  Status (*destroy_layout)(MatrixLayout);
  Status (*set_layout)(MatrixLayout, LayoutAttribute, const void* value, std::size_t bytes);

  Status (*create_preference)(Preference*);
  Status (*destroy_preference)(Preference);
  Status (*set_preference)(Preference, PreferenceAttribute, const void* value, std::size_t bytes);

  Status (*candidates)(Handle, Operation, MatrixLayout a, MatrixLayout b, MatrixLayout c,
                       MatrixLayout d, Preference, int requested, Candidate* results, int* found);
  Status (*property)(const Algorithm*, AlgorithmProperty, void* value, std::size_t bytes,
                     std::size_t* written);
  // D = epilogue(alpha op(A) op(B) + beta C)
  Status (*multiply)(Handle, Operation, const void* alpha, const void* a, MatrixLayout a_layout,
                     const void* b, MatrixLayout b_layout, const void* beta, const void* c,
                     MatrixLayout c_layout, void* d, MatrixLayout d_layout, const Algorithm*,
                     void* workspace, std::size_t workspace_bytes, Stream);
};

// Returns the functions; throws DeviceError (exit 7) if there is no library.
using OpenApi = const Api& (*)();

// The names of the functions in the library.
#define LAMINA_CUBLASLT_FUNCTIONS(X)                      \
  X(create, cublasLtCreate)                               \
  X(destroy, cublasLtDestroy)                             \
  X(version, cublasLtGetVersion)                          \
  X(status_text, cublasLtGetStatusString)                 \
  X(create_operation, cublasLtMatmulDescCreate)           \
  X(destroy_operation, cublasLtMatmulDescDestroy)         \
  X(set_operation, cublasLtMatmulDescSetAttribute)        \
  X(create_layout, cublasLtMatrixLayoutCreate)            \
  X(destroy_layout, cublasLtMatrixLayoutDestroy)          \
  X(set_layout, cublasLtMatrixLayoutSetAttribute)         \
  X(create_preference, cublasLtMatmulPreferenceCreate)    \
  X(destroy_preference, cublasLtMatmulPreferenceDestroy)  \
  X(set_preference, cublasLtMatmulPreferenceSetAttribute) \
  X(candidates, cublasLtMatmulAlgoGetHeuristic)           \
  X(property, cublasLtMatmulAlgoCapGetAttribute)          \
  X(multiply, cublasLtMatmul)

}  // namespace lamina::cuda::blas
