// rotate_write(k_cache, v_cache?, k, v?, q?, table?, start): the rotation of a layer's keys and
// queries and the writes to its caches in one pass over memory. See rotate and cache_write.
#include "ops/op.h"

namespace lamina::ops {
namespace {

namespace in = operand::rotate_write;

// One of k and v, with its cache.
struct Written {
  int cache, rows;
  const char* rotates;
};
constexpr Written kWritten[] = {{in::kKCache, in::kK, "rotate_k"},
                                {in::kVCache, in::kV, "rotate_v"}};

std::int64_t elements_per_token(const Type& x) {
  return x.shape.without_leading().without_leading().num_elements();
}

// The rows of a token have the elements of a slot, but maybe other dims: rows that rotate have a
// dim for heads, a cache of latents has none.
void check_written(const Call& c, const Written& w) {
  const Type &cache = c.type(w.cache), &rows = c.type(w.rows);
  c.require(cache.ndim() >= 2 && rows.ndim() >= 2 && rows.dtype == c.type(in::kK).dtype &&
                cache.dtype == rows.dtype && cache.dim(0) == c.type(in::kK).dim(0) &&
                rows.dim(0) == cache.dim(0) && rows.dim(1) == c.type(in::kK).dim(1) &&
                elements_per_token(cache) == elements_per_token(rows),
            "{} {} does not match the cache {}", c.input_name(w.rows), to_string(rows),
            to_string(cache));
  const std::int64_t first = c.i("first"),
                     slots = c.i("slots") > 0 ? c.i("slots") : cache.dim(1) - first;
  c.require(first >= 0 && rows.dim(1) <= slots && first + slots <= cache.dim(1),
            "{} {} does not fit into slots {} to {} of the cache {}", c.input_name(w.rows),
            to_string(rows), first, first + slots - 1, to_string(cache));
}

void check_rotated(const Call& c, int input) {
  const Type &x = c.type(input), &k = c.type(in::kK), &table = c.type(in::kTable);
  c.require(x.ndim() == 4 && x.dtype == k.dtype && x.dim(0) == k.dim(0) && x.dim(1) == k.dim(1) &&
                table.ndim() == 4 && table.dim(0) == 2 && table.dim(1) == x.dim(0) &&
                table.dim(2) == x.dim(1) && 2 * table.dim(3) <= x.dim(3),
            "table {} does not match {} {}", to_string(table), c.input_name(input), to_string(x));
}

std::vector<Type> infer(const Call& c) {
  c.require_floating(in::kK);
  c.require_dtype(in::kTable, DType::f32);
  c.require_dtype(in::kStart, DType::i32);
  c.require(c.has(in::kV) == c.has(in::kVCache), "v and v_cache must be given both or not at all");
  const bool rotates = c.i("rotate_k") || c.i("rotate_v") || c.has(in::kQ);
  c.require(c.has(in::kTable) == rotates && (c.has(in::kV) || !c.i("rotate_v")),
            "table must be given if and only if something rotates");
  for (const Written& w : kWritten) {
    if (!c.has(w.rows)) continue;
    check_written(c, w);
    if (c.i(w.rotates)) check_rotated(c, w.rows);
  }
  if (c.has(in::kQ)) check_rotated(c, in::kQ);
  c.require_shape(in::kStart, {c.type(in::kK).dim(0)});
  const Type nothing{c.type(in::kK).dtype, {0}, {}};
  return {c.type(in::kKCache), c.has(in::kV) ? c.type(in::kVCache) : nothing,
          c.has(in::kQ) ? c.type(in::kQ) : nothing};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const auto rotated = [&](int input) {
    return rotate(c.in(input), c.in(in::kTable), {.interleaved = c.i("interleaved") != 0});
  };
  const Tensor nothing = constant(*c.in(in::kK).graph, {c.type(in::kK).dtype, {0}, {}}, 0);
  std::vector<Tensor> out{nothing, nothing, nothing};
  if (c.has(in::kQ)) out[2] = rotated(in::kQ);
  for (int i = 0; i < 2; ++i) {
    const Written& w = kWritten[i];
    if (!c.has(w.rows)) continue;
    Tensor rows = c.i(w.rotates) ? rotated(w.rows) : c.in(w.rows);
    Shape shape = c.type(w.cache).shape;
    shape[1] = rows.dim(1);
    if (!(rows.shape() == shape)) rows = reshape(rows, shape);
    out[static_cast<std::size_t>(i)] =
        cache_write(c.in(w.cache), rows, c.in(in::kStart),
                    {.ring = c.i("ring") != 0, .first = c.i("first"), .slots = c.i("slots")});
  }
  return out;
}

}  // namespace

constinit const OpDef rotate_write_op = {
    .infer = infer,
    .lower = lower,
    .in_place = 2,
    .zero_gradient = true,
    .decode = &kContinues,
    .cost = kNoProducts,
    .split = {.none = "it consists of rotations and writes that are already split"},
    .takes_stored = [](const Call&, int i) { return i == in::kKCache || i == in::kVCache; }};

}  // namespace lamina::ops
