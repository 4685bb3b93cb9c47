#include "backends/cuda/blas/product.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/round_up.h"

namespace lamina::cuda::blas {
namespace {

// The alignment that the fast algorithms ask for.
constexpr std::uint32_t kVectorBytes = 16;
// NVIDIA's recommendation for Hopper; more brings nothing.
constexpr std::uint64_t kMaxWorkspaceBytes = 32 << 20;
// In-place reductions add in the order in which blocks end; reductions in the output's type would
// round sums more than once.
constexpr std::uint32_t kReductions = kReductionNone | kReductionComputeType;
constexpr int kCandidates = 8;
// The alignment of a workspace since cuBLAS 12.9. Memory of programs is aligned less.
constexpr std::size_t kWorkspaceAlignment = 256;

DataType data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return DataType::r_32f;
    case DType::bf16:
      return DataType::r_16bf;
    case DType::f16:
      return DataType::r_16f;
    case DType::f8_e4m3:
      return DataType::r_8f_e4m3;
    default:
      LAMINA_ASSERT(dtype == DType::f64);
      return DataType::r_64f;
  }
}

bool is_f64(const ProductSpec& spec) { return spec.in == DType::f64; }
bool is_fp8(const ProductSpec& spec) { return spec.in == DType::f8_e4m3; }
bool multiplies_fp8(const ProductSpec& s) {
  return is_fp8(s) && (s.out == DType::bf16 || s.out == DType::f32) && s.batch == 1 &&
         !s.a_transposed && s.b_transposed && s.m % kFp8Multiple == 0 && s.n % kFp8Multiple == 0 &&
         s.k % kFp8ScaledValues == 0;
}

ComputeType compute_type(const Library& library, const ProductSpec& spec) {
  if (is_f64(spec)) return ComputeType::f64;
  return library.tf32() && spec.in == DType::f32 ? ComputeType::tf32 : ComputeType::f32;
}

// The widths of the stored rows of A and of B.
std::int64_t a_width(const ProductSpec& s) { return s.a_transposed ? s.m : s.k; }
std::int64_t b_width(const ProductSpec& s) { return s.b_transposed ? s.k : s.n; }
std::int64_t a_rows(const ProductSpec& s) { return s.a_transposed ? s.k : s.m; }
std::int64_t b_rows(const ProductSpec& s) { return s.b_transposed ? s.n : s.k; }

ProductSpec with_defaults(ProductSpec spec) {
  LAMINA_ASSERT(multiplies(spec.in, spec.out) || multiplies_fp8(spec));
  LAMINA_ASSERT(!(spec.bias && is_f64(spec)));
  LAMINA_ASSERT(spec.batch > 0 && spec.m > 0 && spec.n > 0 && spec.k > 0);
  if (spec.lda == 0) spec.lda = a_width(spec);
  if (spec.ldc == 0) spec.ldc = spec.n;
  LAMINA_ASSERT(spec.lda >= a_width(spec) && spec.ldc >= spec.n);
  return spec;
}

template <typename Object, typename... Args>
std::unique_ptr<Object, Status (*)(Object*)> created(const Api& api, const char* function,
                                                     Status (*create)(Object**, Args...),
                                                     Status (*destroy)(Object*), Args... args) {
  Object* object = nullptr;
  check(api, create(&object, args...), function);
  return {object, destroy};
}

}  // namespace

bool multiplies(DType in, DType out) {
  if (in == DType::f64) return out == DType::f64;
  return is_floating(in) && (out == in || out == DType::f32);
}

// cuBLASLt's matrices are in column-major order: a row-major matrix is its transpose. So D^T = B^T
// A^T is computed: its first operand is our B, and D^T has n rows, along which the bias lies.
PreparedProduct::PreparedProduct(Library& library, const ProductSpec& spec)
    : library_(library),
      spec_(with_defaults(spec)),
      operation_(created(library.api(), "cublasLtMatmulDescCreate", library.api().create_operation,
                         library.api().destroy_operation, compute_type(library, spec),
                         is_f64(spec) ? DataType::r_64f : DataType::r_32f)),
      a_(make_layout(spec_.in, a_rows(spec_), a_width(spec_), spec_.lda)),
      b_(make_layout(spec_.in, b_rows(spec_), b_width(spec_), b_width(spec_))),
      d_(make_layout(spec_.out, spec_.m, spec_.n, spec_.ldc)) {
  const Transpose first = spec_.b_transposed ? Transpose::transposed : Transpose::none;
  const Transpose second = spec_.a_transposed ? Transpose::transposed : Transpose::none;
  set(OperationAttribute::transpose_a, &first, sizeof first);
  set(OperationAttribute::transpose_b, &second, sizeof second);
  if (spec_.bias) {
    const Epilogue epilogue = Epilogue::bias;
    const DataType type = data_type(spec_.out);
    set(OperationAttribute::epilogue, &epilogue, sizeof epilogue);
    set(OperationAttribute::bias_type, &type, sizeof type);
  }
  if (is_fp8(spec_)) {
    const ScaleMode mode = ScaleMode::of_128_values;
    set(OperationAttribute::a_scale_mode, &mode, sizeof mode);
    set(OperationAttribute::b_scale_mode, &mode, sizeof mode);
    // A search reads no scales, but without an address the library could take them as absent.
    set_scales(kVectorBytes, kVectorBytes);
    choices_.fill(choose(kVectorBytes));
    return;
  }
  choices_ = {
      choose(kVectorBytes),
      choose(static_cast<std::uint32_t>(std::min(size_bytes(spec_.in), size_bytes(spec_.out))))};
}

// The layout of a row-major matrix whose rows are `leading` elements apart; in a batch the next
// matrix begins after its rows.
PreparedProduct::Owned<LayoutObject> PreparedProduct::make_layout(DType dtype, std::int64_t rows,
                                                                  std::int64_t width,
                                                                  std::int64_t leading) const {
  const Api& api = library_.api();
  auto layout = created(api, "cublasLtMatrixLayoutCreate", api.create_layout, api.destroy_layout,
                        data_type(dtype), static_cast<std::uint64_t>(width),
                        static_cast<std::uint64_t>(rows), leading);
  const std::int64_t stride = rows * leading;
  if (spec_.batch > 1) {
    const auto count = static_cast<std::int32_t>(spec_.batch);
    check(api, api.set_layout(layout.get(), LayoutAttribute::batch_count, &count, sizeof count),
          "cublasLtMatrixLayoutSetAttribute");
    check(api, api.set_layout(layout.get(), LayoutAttribute::batch_stride, &stride, sizeof stride),
          "cublasLtMatrixLayoutSetAttribute");
  }
  return layout;
}

void PreparedProduct::set(OperationAttribute attribute, const void* value,
                          std::size_t bytes) const {
  check(library_.api(), library_.api().set_operation(operation_.get(), attribute, value, bytes),
        "cublasLtMatmulDescSetAttribute");
}

void PreparedProduct::set_scales(Address a, Address b) const {
  set(OperationAttribute::a_scale_pointer, &b, sizeof b);  // the first operand is our B
  set(OperationAttribute::b_scale_pointer, &a, sizeof a);
}

AlgorithmChoice PreparedProduct::choose(std::uint32_t alignment) const {
  const ProductSpec& s = spec_;
  const ProblemKey key{.batch = s.batch,
                       .m = s.m,
                       .n = s.n,
                       .k = s.k,
                       .lda = s.lda,
                       .ldc = s.ldc,
                       .compute = static_cast<std::int32_t>(compute_type(library_, s)),
                       .in = static_cast<std::int32_t>(data_type(s.in)),
                       .out = static_cast<std::int32_t>(data_type(s.out)),
                       .a_transposed = s.a_transposed,
                       .b_transposed = s.b_transposed,
                       .accumulate = s.accumulate,
                       .bias = s.bias,
                       .alignment = alignment};
  return library_.choice(key, [&] { return search(alignment); });
}

// Asks for the best algorithm. It must keep C apart from D if both are given.
AlgorithmChoice PreparedProduct::search(std::uint32_t alignment) const {
  const Api& api = library_.api();
  const auto preference =
      created(api, "cublasLtMatmulPreferenceCreate", api.create_preference, api.destroy_preference);
  const auto prefer = [&](PreferenceAttribute attribute, const auto& value) {
    check(api, api.set_preference(preference.get(), attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(PreferenceAttribute::max_workspace_bytes, kMaxWorkspaceBytes);
  prefer(PreferenceAttribute::reduction_schemes, kReductions);
  for (PreferenceAttribute operand :
       {PreferenceAttribute::min_alignment_a, PreferenceAttribute::min_alignment_b,
        PreferenceAttribute::min_alignment_c, PreferenceAttribute::min_alignment_d})
    prefer(operand, alignment);
  std::array<Candidate, kCandidates> candidates = {};
  int found = 0;
  const Status status =
      api.candidates(library_.handle(), operation_.get(), b_.get(), a_.get(), d_.get(), d_.get(),
                     preference.get(), kCandidates, candidates.data(), &found);
  if (status != Status::not_supported) check(api, status, "cublasLtMatmulAlgoGetHeuristic");
  for (int i = 0; i < found; ++i) {
    const Candidate& candidate = candidates[static_cast<std::size_t>(i)];
    if (candidate.state != Status::success) continue;
    std::int32_t out_of_place = 0;
    std::size_t written = 0;
    check(api,
          api.property(&candidate.algorithm, AlgorithmProperty::out_of_place, &out_of_place,
                       sizeof out_of_place, &written),
          "cublasLtMatmulAlgoCapGetAttribute");
    if (!spec_.accumulate || out_of_place != 0)
      return {candidate.algorithm, candidate.workspace_bytes};
  }
  throw NoAlgorithm(
      ExitCode::memory,
      {"cuda",
       fmt::format("cuBLASLt {} has no algorithm for {} products of {} x {} x {}, {} into {}{}{}",
                   api.version(), spec_.batch, spec_.m, spec_.n, spec_.k, name(spec_.in),
                   name(spec_.out), spec_.bias ? " with bias" : "",
                   spec_.accumulate ? ", accumulated" : ""),
       {"use another version of cuBLAS, or --device cpu"}});
}

std::size_t PreparedProduct::workspace_bytes() const {
  const std::size_t bytes = std::max(choices_[0].workspace_bytes, choices_[1].workspace_bytes);
  return bytes > 0 ? bytes + kWorkspaceAlignment : 0;
}

void PreparedProduct::run(Stream stream, const Operands& operands) const {
  const Api& api = library_.api();
  LAMINA_ASSERT(operands.bias % kVectorBytes == 0);  // searches do not ask for it
  if (spec_.bias) set(OperationAttribute::bias_pointer, &operands.bias, sizeof operands.bias);
  if (is_fp8(spec_)) set_scales(operands.a_scales, operands.b_scales);
  const Address all = operands.a | operands.b | operands.c | operands.d;
  const AlgorithmChoice& choice = choices_[all % kVectorBytes == 0 ? 0 : 1];
  const float one = 1, zero = 0;
  const double one_f64 = 1, zero_f64 = 0;
  const bool f64 = is_f64(spec_);
  const void* alpha = f64 ? static_cast<const void*>(&one_f64) : &one;
  const void* beta = f64 ? static_cast<const void*>(spec_.accumulate ? &one_f64 : &zero_f64)
                         : static_cast<const void*>(spec_.accumulate ? &one : &zero);
  const auto pointer = [](Address address) { return reinterpret_cast<void*>(address); };
  check(api,
        api.multiply(library_.handle(), operation_.get(), alpha, pointer(operands.b), b_.get(),
                     pointer(operands.a), a_.get(), beta,
                     pointer(spec_.accumulate ? operands.c : operands.d), d_.get(),
                     pointer(operands.d), d_.get(), &choice.algorithm,
                     pointer(round_up(operands.workspace, Address{kWorkspaceAlignment})),
                     choice.workspace_bytes, stream),
        "cublasLtMatmul");
}

}  // namespace lamina::cuda::blas
