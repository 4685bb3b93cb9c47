// reshape(x; shape): the same elements, in the same order, in another shape. The result of values
// that are stored in blocks is stored, too, if they only get or lose a first dim of 1, as decode
// state does.
#include <algorithm>
#include <numeric>

#include "ops/op.h"

namespace lamina::ops {
namespace {

bool is_one_more(const Shape& longer, const Shape& shape) {
  return longer.ndim() == shape.ndim() + 1 && longer[0] == 1 && longer.without_leading() == shape;
}

bool keeps_rows(const Shape& from, const Shape& to) {
  return from.ndim() > 1 && to.ndim() > 1 && (is_one_more(from, to) || is_one_more(to, from));
}

std::vector<Type> infer(const Call& c) {
  Shape shape = checked_shape(c, "shape");
  c.require(shape.num_elements() == c.type(0).num_elements(),
            "{} has {} elements, but the shape {} requires {}", to_string(c.type(0)),
            c.type(0).num_elements(), to_string(shape), shape.num_elements());
  return {c.type(0).with(shape).stored_as(keeps_rows(c.type(0).shape, shape) ? c.type(0).storage
                                                                             : nullptr)};
}

std::vector<Tensor> vjp(const VjpCall& c) { return {reshape(c.ct(), c.type(0).shape)}; }

std::optional<std::int64_t> view(const Call&) { return 0; }

bool has_no_tokens(const Extent& extent) { return !has_tokens({extent}); }

// Merges two extents without tokens. Only parts of equal elements make equal elements.
Extent merged_extent(const Extent& a, const Extent& b) {
  return {a.counted == b.counted ? a.counted : Counted::other, a.size * b.size};
}

// Parts of old dims become parts of new ones; tokens must not be split over several dims.
void tokens(TokenFlow& flow) {
  flow.read_places(0);  // and passes them on
  const Type& out = flow.node.out_type();
  Extents extents = extents_of(out, Counted::other);
  DimExtents left;  // the innermost last; neighbours of one kind without tokens merged
  bool has_elements = true;
  for (std::size_t d = 0; d < flow.in(0).size(); ++d) {
    has_elements = has_elements && flow.node.type(0).dim(static_cast<int>(d)) > 0;
    for (const Extent& extent : flow.in(0)[d])
      if (!left.empty() && has_no_tokens(extent) && left.back().counted == extent.counted)
        left.back() = merged_extent(left.back(), extent);
      else
        left.push_back(extent);
  }
  std::ranges::reverse(left);
  for (int d = 0; has_elements && d < out.ndim(); ++d) {
    DimExtents& dim = extents[static_cast<std::size_t>(d)];
    dim.clear();
    for (std::int64_t size = out.dim(d); size > 1;) {
      LAMINA_ASSERT(!left.empty());  // extents have the sizes of their dims
      const Extent next = left.back();
      const std::int64_t taken = std::gcd(size, next.size);
      const bool fits = taken == std::min(size, next.size);
      // A dim that has a part of two kinds distinguishes the elements of both.
      if (!fits && has_no_tokens(next) && left.size() > 1 && has_no_tokens(left[left.size() - 2])) {
        left.pop_back();
        left.back() = merged_extent(next, left.back());
        continue;
      }
      if (!fits || (taken < next.size && has_tokens({next}))) {
        flow.mixes = fmt::format("puts tokens of {} into several dims of {}",
                                 to_string(flow.node.type(0)), to_string(out));
        flow.outputs = {extents_of(out, Counted::other)};
        return;
      }
      const Extent part{next.counted, taken};
      if (!dim.empty() && has_no_tokens(part) && has_no_tokens(dim.back()))
        dim.back() = merged_extent(dim.back(), part);
      else
        dim.push_back(part);
      size /= taken;
      left.back().size /= taken;
      if (left.back().size == 1) left.pop_back();
    }
  }
  flow.outputs = {std::move(extents)};
}

}  // namespace

constinit const OpDef reshape_op = {
    .infer = infer,
    .vjp = vjp,
    .view = view,
    .layout_only = true,
    .decode = &kEachToken,
    .cost = kNoProducts,
    .split = {.none = "elements move between dims"},
    .tokens = tokens,
    .takes_stored = [](const Call& c,
                       int) { return keeps_rows(c.type(0).shape, checked_shape(c, "shape")); },
    .facts = {.on_heads = OnHeads::shapes,
              .moves_data = true,
              .carries_rows = true,
              .size_attrs = {"shape"}}};

}  // namespace lamina::ops
