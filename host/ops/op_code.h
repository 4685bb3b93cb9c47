// Every op as a constant, for host/ops, host/graph and backends; other code asks for OpFacts.
#pragma once

#include "graph/op.h"

namespace lamina {

enum class OpCode : std::uint16_t {
#define LAMINA_OP(id, name, ...) name,
#include "lamina/ops.def"
#define LAMINA_INTERNAL_OP(name, ...) name,
#include "ops/internal.def"
};

}  // namespace lamina
