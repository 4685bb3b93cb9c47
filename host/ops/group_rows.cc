// group_rows(ids; groups, capacity_factor): a stable counting sort of assignments by group, and the
// start of each group. With a capacity (ops/group_capacity.h), only that many first assignments of
// a group stay in it, separately for each element of ids' first dim (a row of the batch).
#include <algorithm>

#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& ids = c.type(0);
  c.require_dtype(0, DType::i32);
  c.require(ids.ndim() >= 1, "ids must have at least one dim, got {}", to_string(ids));
  c.require(c.i("groups") >= 1, "groups must be at least 1, got {}", c.i("groups"));
  c.require(c.f("capacity_factor") >= 0, "capacity_factor must not be negative, got {}",
            c.f("capacity_factor"));
  return {{DType::i32, {ids.num_elements()}, {}}, {DType::i32, {c.i("groups") + 1}, {}}};
}

// Capacities count the tokens of a row of the batch, by design.
void tokens(TokenFlow& flow) {
  const bool of_tokens = std::ranges::any_of(flow.in(0), has_tokens);
  for (int i = 0; i < 2; ++i)
    flow.outputs.push_back(
        extents_of(flow.node.out_type(i), of_tokens ? Counted::places : Counted::other));
}

}  // namespace

constinit const OpDef group_rows_op = {.infer = infer,
                                       .zero_gradient = true,
                                       .decode = &kEachToken,
                                       .cost = kNoProducts,
                                       .split = {.none = "all assignments are sorted"},
                                       .tokens = tokens};

}  // namespace lamina::ops
