// The ops there are: ops.def and internal.def joined with the files of this folder.
#pragma once

#include <span>
#include <string_view>

#include "graph/op.h"

namespace lamina::ops {

// Every op by its code, in the order of ops.def, then of internal.def. [any thread]
std::span<const Op> all();

// By name, or by number and revision as plugins name it; null when there is none.
const Op* find(std::string_view name);
const Op* find(std::uint32_t id, std::uint32_t revision);

// REQUIRES: the op exists (names in our own code).
const Op& get(std::string_view name);
const Op& get(OpCode code);

}  // namespace lamina::ops
