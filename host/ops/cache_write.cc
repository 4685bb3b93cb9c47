// cache_write(cache, update, start; ring, first, slots): update[B, T, ...] written over slots
// start[b] .. start[b] + T - 1 of cache[B, C, ...], in place; with ring, over those slots modulo C.
// With first and slots the cache is a part of the given one: C = slots, starting at slot `first`.
// A cache that is stored in rows of formats/row_formats.h gets the values of `update` in its
// format.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& cache = c.type(0);
  const Type& update = c.type(1);
  bool fits = cache.ndim() == update.ndim() && cache.ndim() >= 2 && cache.dtype == update.dtype;
  for (int i = 0; fits && i < cache.ndim(); ++i) fits = i == 1 || cache.dim(i) == update.dim(i);
  c.require(fits, "update {} does not match the cache {}", to_string(update), to_string(cache));
  std::int64_t first = c.i("first"), slots = c.i("slots") > 0 ? c.i("slots") : cache.dim(1) - first;
  c.require(first >= 0 && slots >= 0 && first + slots <= cache.dim(1),
            "slots {} to {} are outside the cache {}", first, first + slots - 1, to_string(cache));
  c.require(update.dim(1) <= slots, "update {} does not fit into {} slots of the cache {}",
            to_string(update), slots, to_string(cache));
  c.require_dtype(2, DType::i32);
  c.require_shape(2, {cache.dim(0)});
  return {cache};
}

}  // namespace

constinit const OpDef cache_write_op = {.infer = infer,
                                        .in_place = 1,
                                        .zero_gradient = true,
                                        .decode = &kContinues,
                                        .cost = kNoProducts,
                                        .split = {.rule = "bS..., bT..., b -> bS..."},
                                        .takes_stored = [](const Call&, int i) { return i == 0; }};

}  // namespace lamina::ops
