#include "ops/documents.h"

namespace lamina::ops {
namespace {

// Returns whether i32[B] is 0, for all elements of a row of x[B, ...].
Tensor is_zero(Tensor number, Tensor x) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(x.ndim()), 1);
  dims[0] = x.dim(0);
  Tensor column = reshape(number, Shape(std::span<const std::int64_t>(dims)));
  return equal(column, zeros_like(column));
}

}  // namespace

Tensor same_document(Tensor segments, DType wide) {
  const std::int64_t tokens = segments.dim(1);
  Tensor before = concat({slice(segments, 1, 0, 1), slice(segments, 1, 0, tokens - 1)}, {.dim = 1});
  return cast(cast(equal(segments, before), DType::i32), wide);
}

Tensor valid_tokens(Tensor count, std::int64_t tokens, DType wide) {
  const std::int64_t batch = count.dim(0);
  Tensor index = iota(*count.graph, {.shape = {batch, tokens}, .dim = 1});
  return cast(cast(less(index, reshape(count, {batch, 1})), DType::i32), wide);
}

Tensor state_before(Tensor state, Tensor start) {
  return select(is_zero(start, state), zeros_like(state), state);
}

Tensor state_after(Tensor before, Tensor after, Tensor count) {
  return select(is_zero(count, before), before, after);
}

}  // namespace lamina::ops
