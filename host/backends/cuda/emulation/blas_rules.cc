#include "backends/cuda/emulation/blas_rules.h"

#include "backends/cuda/emulation/grid.h"

namespace lamina::cuda::emulation {

using namespace blas;

namespace {

// The requirements of FP8 in the documentation of cublasLtMatmul and of its modes of scales.
Status check_fp8(const OperationObject& op, const BlasMatrix& a, const BlasMatrix& b,
                 const BlasMatrix& c, const BlasMatrix& d) {
  if (capability() != 90)
    return refuse(Status::not_supported, "scales of 128 values need compute capability 9.0");
  if (a.type != b.type || c.type != d.type || op.compute != ComputeType::f32 ||
      op.scale != DataType::r_32f || d.type == DataType::r_64f || d.type == DataType::r_8f_e4m3)
    return refuse(Status::not_supported, "a combination of FP8 types that is not in the table");
  const DataType bias = d.type == DataType::r_16f ? DataType::r_16f : DataType::r_16bf;
  if (op.epilogue == Epilogue::bias && op.bias_type.value_or(d.type) != bias)
    return refuse(Status::not_supported, "a bias of a type that is not in the table");
  if (op.transpose_a != Transpose::transposed || op.transpose_b != Transpose::none)
    return refuse(Status::not_supported, "FP8 operands that are not multiplied along their rows");
  if (op.a_scale_mode != ScaleMode::of_128_values || op.b_scale_mode != ScaleMode::of_128_values)
    return refuse(Status::not_supported, "FP8 operands without scales of 128 values");
  for (const BlasMatrix* x : {&a, &b, &c, &d})
    for (const std::int64_t size : {x->rows, x->columns, x->leading})
      if (size % 16 != 0)
        return refuse(Status::not_supported, "a size of {}; FP8 needs multiples of 16", size);
  return Status::success;
}

}  // namespace

Status sizes_of(const OperationObject& op, const BlasMatrix& a, const BlasMatrix& b,
                const BlasMatrix& c, const BlasMatrix& d, BlasSizes& out) {
  const bool ta = op.transpose_a != Transpose::none, tb = op.transpose_b != Transpose::none;
  out = {ta ? a.columns : a.rows, tb ? b.rows : b.columns, ta ? a.rows : a.columns};
  if (out.m <= 0 || out.n <= 0 || out.k <= 0)
    return invalid("a product of {} x {} x {}", out.m, out.n, out.k);
  if ((tb ? b.columns : b.rows) != out.k)
    return invalid("the inner sizes differ: {} and {}", out.k, tb ? b.columns : b.rows);
  for (const BlasMatrix* x : {&c, &d})
    if (x->rows != out.m || x->columns != out.n)
      return invalid("a result of {} x {} for {} x {}", x->rows, x->columns, out.m, out.n);
  for (const BlasMatrix* x : {&a, &b, &c, &d})
    if (x->leading < x->rows)
      return invalid("columns of {} rows do not fit {} apart", x->rows, x->leading);
  for (const BlasMatrix* x : {&a, &b, &c, &d})
    if (x->batch < 1 || x->batch != d.batch)
      return invalid("batches of {} and {}", x->batch, d.batch);
  if (d.batch > 1 && d.stride < (d.columns - 1) * d.leading + d.rows)
    return invalid("the results of a batch overlap");
  return Status::success;
}

// The table of types in the documentation of cublasLtMatmul.
Status check_types(const OperationObject& op, const BlasMatrix& a, const BlasMatrix& b,
                   const BlasMatrix& c, const BlasMatrix& d) {
  if (a.type == DataType::r_8f_e4m3 || b.type == DataType::r_8f_e4m3)
    return check_fp8(op, a, b, c, d);
  if (op.a_scale_mode != ScaleMode::one || op.b_scale_mode != ScaleMode::one)
    return refuse(Status::not_supported, "operands other than FP8 have no scales");
  const bool f64 = op.compute == ComputeType::f64;
  const DataType in = a.type;
  bool good =
      in == b.type && c.type == d.type && op.scale == (f64 ? DataType::r_64f : DataType::r_32f);
  good = good && (f64 ? in == DataType::r_64f && d.type == DataType::r_64f
                      : in != DataType::r_64f && (d.type == in || d.type == DataType::r_32f));
  if (op.compute == ComputeType::tf32) good = good && in == DataType::r_32f;
  if (op.epilogue == Epilogue::bias) good = good && !f64 && op.bias_type.value_or(d.type) == d.type;
  if (!good)
    return refuse(Status::not_supported, "a combination of types that is not in the table");
  return Status::success;
}

}  // namespace lamina::cuda::emulation
