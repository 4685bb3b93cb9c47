// latent_attention: see ops.def.
#include "ops/op.h"

namespace lamina::ops {

constinit const OpDef latent_attention_op = {};

}  // namespace lamina::ops
