// index_scores: see ops.def.
#include "ops/op.h"

namespace lamina::ops {

constinit const OpDef index_scores_op = {};

}  // namespace lamina::ops
