#include "backends/cuda/emulation/blas_rules.h"

namespace lamina::cuda::emulation {

using namespace blas;

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
