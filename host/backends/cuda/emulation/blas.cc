#include "backends/cuda/emulation/blas.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>

#include "backends/cuda/emulation/blas_objects.h"
#include "backends/cuda/emulation/blas_rules.h"
#include "backends/cuda/emulation/driver.h"
#include "backends/cuda/emulation/memory_range.h"

namespace lamina::cuda::emulation {

using namespace blas;

namespace {

constexpr std::uint64_t kMagic = 0x626c6173'616c676f;

// All that an algorithm is valid for.
std::uint64_t problem_of(const OperationObject& op, const BlasMatrix& a, const BlasMatrix& b,
                         const BlasMatrix& c, const BlasMatrix& d) {
  std::string text;
  const auto add = [&](auto value) {
    text += fmt::format("{} ", static_cast<std::int64_t>(value));
  };
  add(op.compute), add(op.transpose_a), add(op.transpose_b), add(op.epilogue);
  add(op.a_scale_mode), add(op.b_scale_mode);
  for (const BlasMatrix* x : {&a, &b, &c, &d})
    add(x->type), add(x->rows), add(x->columns), add(x->leading), add(x->batch), add(x->stride);
  return std::hash<std::string>{}(text);
}

// The contents of an Algorithm.
struct AlgorithmData {
  std::uint64_t magic, problem, workspace_bytes;
  std::uint32_t alignment[4];
  std::uint32_t out_of_place, in_place_sums;
};
static_assert(sizeof(AlgorithmData) <= sizeof(Algorithm));

AlgorithmData data_of(const Algorithm& algorithm) {
  AlgorithmData data;
  std::memcpy(&data, &algorithm, sizeof data);
  return data;
}

// Finds two algorithms: the first cannot keep C apart from D; long sums have a workspace.
Status candidates(Handle handle, Operation op, MatrixLayout a, MatrixLayout b, MatrixLayout c,
                  MatrixLayout d, Preference preference, int requested, Candidate* results,
                  int* found) {
  if (const Status status = begin_call("cublasLtMatmulAlgoGetHeuristic"); status != Status::success)
    return status;
  if (!are_alive({handle, op, a, b, c, d, preference})) return invalid("uses a destroyed object");
  if (requested < 1 || results == nullptr || found == nullptr) return invalid("wants no results");
  ++BlasObjects::instance().searches;
  *found = 0;
  BlasSizes sizes;
  Status status = sizes_of(*op, a->matrix, b->matrix, c->matrix, d->matrix, sizes);
  if (status == Status::success)
    status = check_types(*op, a->matrix, b->matrix, c->matrix, d->matrix);
  if (status != Status::success) return status;
  if (a->matrix.type == DataType::r_8f_e4m3)
    for (const std::uint32_t bytes : preference->min_alignment)
      if (bytes % 16 != 0)
        return refuse(Status::not_supported, "FP8 operands that are not aligned to 16 bytes");
  constexpr std::int64_t kLongSum = 64;
  const auto parts = static_cast<std::uint64_t>(sizes.m * sizes.n * d->matrix.batch) * 4;
  AlgorithmData data = {
      .magic = kMagic,
      .problem = problem_of(*op, a->matrix, b->matrix, c->matrix, d->matrix),
      .workspace_bytes =
          sizes.k >= kLongSum && parts <= preference->max_workspace_bytes ? parts : 0,
      .alignment = {},
      .out_of_place = 0,
      .in_place_sums = (preference->reduction_schemes & kReductionInPlace) != 0};
  std::memcpy(data.alignment, preference->min_alignment, sizeof data.alignment);
  for (; *found < std::min(requested, 2); ++*found, data.out_of_place = 1) {
    Candidate& result = results[*found];
    result = {};
    std::memcpy(&result.algorithm, &data, sizeof data);
    result.workspace_bytes = data.workspace_bytes;
    result.state = Status::success;
    result.waves = 1;
  }
  return Status::success;
}

Status property(const Algorithm* algorithm, AlgorithmProperty property, void* value,
                std::size_t bytes, std::size_t* written) {
  if (algorithm == nullptr || data_of(*algorithm).magic != kMagic)
    return invalid("there is no such algorithm");
  if (property != AlgorithmProperty::out_of_place || bytes != sizeof(std::int32_t))
    return invalid("a property that is unknown or of another size");
  const auto out_of_place = static_cast<std::int32_t>(data_of(*algorithm).out_of_place);
  std::memcpy(value, &out_of_place, sizeof out_of_place);
  *written = sizeof out_of_place;
  return Status::success;
}

// `rows`: of the operand, along k.
Status check_scales(std::uint64_t scales, std::int64_t rows, std::int64_t k, const MemoryRange& d) {
  if (scales == 0 || scales % 16 != 0)
    return invalid("the scales are missing, or not aligned to 16 bytes");
  const MemoryRange range = {scales, (k + 127) / 128 * rows * 4};
  if (!range.is_allocated() || range.overlaps(d))
    return invalid("the scales are outside of the memory of the GPU, or in D");
  return Status::success;
}

Status check_memory(const MemoryRange (&operands)[4], const MemoryRange& bias,
                    const MemoryRange& workspace, const AlgorithmData& algorithm, bool reads_c) {
  constexpr const char* kNames[] = {"A", "B", "C", "D"};
  for (int i = 0; i < 4; ++i) {
    if (i == 2 && !reads_c) continue;
    if (!operands[i].is_allocated())
      return invalid("{} is outside of the memory of the GPU", kNames[i]);
    if (operands[i].begin % algorithm.alignment[i] != 0)
      return invalid("{} is not aligned to {} bytes, as the algorithm asks for", kNames[i],
                     algorithm.alignment[i]);
  }
  const MemoryRange& d = operands[3];
  for (int i = 0; i < 2; ++i)
    if (d.overlaps(operands[i])) return invalid("D overlaps {}", kNames[i]);
  if (reads_c && d.begin != operands[2].begin &&
      (d.overlaps(operands[2]) || algorithm.out_of_place == 0))
    return invalid("the algorithm computes D in the place of C only");
  if (bias && (!bias.is_allocated() || d.overlaps(bias)))
    return invalid("the bias is outside of the memory of the GPU, or in D");
  // No preference says how a bias is aligned, so an algorithm may read it by vectors.
  if (bias && bias.begin % 16 != 0) return invalid("the bias is not aligned to 16 bytes");
  if (workspace.bytes < static_cast<std::int64_t>(algorithm.workspace_bytes))
    return invalid("a workspace of {} bytes; the algorithm needs {}", workspace.bytes,
                   algorithm.workspace_bytes);
  if (!workspace) return Status::success;
  if (workspace.begin % 256 != 0 || !workspace.is_allocated())
    return invalid("the workspace is not aligned to 256 bytes, or outside of the GPU's memory");
  for (const MemoryRange& operand : operands)
    if (operand.overlaps(workspace)) return invalid("the workspace overlaps an operand");
  return Status::success;
}

double number(const void* at, DataType scale) {
  if (scale == DataType::r_64f) return *static_cast<const double*>(at);
  return static_cast<double>(*static_cast<const float*>(at));
}

Status multiply(Handle handle, Operation op, const void* alpha, const void* a,
                MatrixLayout a_layout, const void* b, MatrixLayout b_layout, const void* beta,
                const void* c, MatrixLayout c_layout, void* d, MatrixLayout d_layout,
                const Algorithm* algorithm, void* workspace, std::size_t workspace_bytes,
                Stream stream) {
  if (const Status status = begin_call("cublasLtMatmul"); status != Status::success) return status;
  if (!are_alive({handle, op, a_layout, b_layout, c_layout, d_layout}))
    return invalid("uses a destroyed object");
  const BlasMatrix &am = a_layout->matrix, &bm = b_layout->matrix, &cm = c_layout->matrix,
                   &dm = d_layout->matrix;
  BlasSizes sizes;
  if (const Status status = sizes_of(*op, am, bm, cm, dm, sizes); status != Status::success)
    return status;
  if (algorithm == nullptr || data_of(*algorithm).magic != kMagic)
    return invalid("there is no such algorithm");
  const AlgorithmData data = data_of(*algorithm);
  if (data.problem != problem_of(*op, am, bm, cm, dm))
    return invalid("the algorithm was chosen for another problem");
  const bool has_bias = op->epilogue == Epilogue::bias;
  if (has_bias && op->bias == 0) return invalid("the bias is missing");
  const MemoryRange operands[] = {range(a, am.bytes()), range(b, bm.bytes()), range(c, cm.bytes()),
                                  range(d, dm.bytes())};
  const MemoryRange bias = {op->bias,
                            has_bias ? dm.rows * static_cast<std::int64_t>(bytes_of(dm.type)) : 0};
  const MemoryRange scratch = range(workspace, static_cast<std::int64_t>(workspace_bytes));
  const double factor = number(beta, op->scale);
  if (const Status status = check_memory(operands, bias, scratch, data, factor != 0);
      status != Status::success)
    return status;
  const bool fp8 = am.type == DataType::r_8f_e4m3;
  if (fp8) {
    Status status = check_scales(op->a_scale, sizes.m, sizes.k, operands[3]);
    if (status == Status::success)
      status = check_scales(op->b_scale, sizes.n, sizes.k, operands[3]);
    if (status != Status::success) return status;
  }
  const auto scales_at = [fp8](std::uint64_t at) {
    return fp8 ? bytes_behind(reinterpret_cast<const void*>(at)) : nullptr;
  };
  const int count = ++BlasObjects::instance().products;
  const BlasProduct product = {
      .m = sizes.m,
      .n = sizes.n,
      .k = sizes.k,
      .a_transposed = op->transpose_a != Transpose::none,
      .b_transposed = op->transpose_b != Transpose::none,
      .compute = op->compute,
      .alpha = number(alpha, op->scale),
      .beta = factor,
      .a = am,
      .b = bm,
      .c = cm,
      .d = dm,
      .a_at = bytes_behind(a),
      .b_at = bytes_behind(b),
      .c_at = bytes_behind(c),
      .d_at = bytes_behind(d),
      .bias = has_bias ? bytes_behind(reinterpret_cast<const void*>(op->bias)) : nullptr,
      .a_scales = scales_at(op->a_scale),
      .b_scales = scales_at(op->b_scale),
      // Sums in place are added in the order in which blocks end.
      .first_part = data.in_place_sums ? count : 0};
  std::byte* const parts = bytes_behind(workspace);
  const DriverResult result =
      add_work(static_cast<StreamHandle>(stream), [product, parts, bytes = data.workspace_bytes] {
        if (bytes > 0) std::memset(parts, 0xa5, bytes);
        compute(product);
      });
  if (result == DriverResult::success) return Status::success;
  return refuse(Status::execution_failed, "the driver returns error {}", static_cast<int>(result));
}

}  // namespace

const Api& blas_api() {
  static const Api api = [] {
    Api out = {};
    add_object_functions(out);
    out.candidates = candidates;
    out.property = property;
    out.multiply = multiply;
    return out;
  }();
  return api;
}

BlasVersion::BlasVersion(std::size_t version)
    : before_(BlasObjects::instance().version.exchange(version)) {}
BlasVersion::~BlasVersion() { BlasObjects::instance().version = before_; }

void fail_next_blas_call(std::string_view function, Status status) {
  BlasObjects::instance().failures.add(function, status);
}

BlasCalls blas_calls() {
  const BlasObjects& objects = BlasObjects::instance();
  return {objects.searches, objects.products};
}

int num_blas_objects() {
  BlasObjects& objects = BlasObjects::instance();
  const std::lock_guard lock(objects.mutex);
  return static_cast<int>(objects.alive.size());
}

}  // namespace lamina::cuda::emulation
