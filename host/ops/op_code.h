// Every op as a constant, for host/ops, host/graph and backends; other code asks for OpFacts.
#pragma once

#include "graph/op.h"

namespace lamina {

// The code of an op of the contract is its id, so that a new row changes no other code; ops of the
// host are counted from above the ids.
enum class OpCode : std::uint16_t {
#define LAMINA_OP(id, name, ...) name = (id),
#include "lamina/ops.def"
  below_internal = 0x7fff,
#define LAMINA_INTERNAL_OP(name, ...) name,
#include "ops/internal.def"
};

}  // namespace lamina
