// All ops: ops.def and internal.def joined with the files of this folder.
#pragma once

#include <span>
#include <string_view>

#include "graph/op.h"

namespace lamina::ops {

// Returns every op, in the order of ops.def, then of internal.def. [any thread]
std::span<const Op> all();

// Finds an op by name, or by number and revision as plugins do; null if there is none.
const Op* find(std::string_view name);
const Op* find(std::uint32_t id, std::uint32_t revision);

// REQUIRES: the op exists (for names in our own code).
const Op& get(std::string_view name);
const Op& get(OpCode code);

}  // namespace lamina::ops
