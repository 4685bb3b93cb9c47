// Ops and attributes as a plugin names them, checked against ops.def. Internal to registry.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/op.h"
#include "registry/abi_read.h"

namespace lamina::registry::abi {

using NamedAttrs = std::vector<std::pair<std::string_view, AttrValue>>;

// The op of that number. Throws ContractError if there is none, or this host has another
// revision.
const Op& op(std::uint32_t id, std::uint32_t revision);

// The attributes in `list`, by name (borrowed from the op). Throws ContractError for keys that the
// op lacks or that are given twice, for values of another kind, and for missing required ones.
NamedAttrs attrs(const Op& op, const lamina_span_t& list);

// As a plugin reads them; borrowed.
std::vector<lamina_value_t> value_views(std::span<const AttrValue> values);

// Throws ContractError if `flags` has bits outside of `known`.
void check_flags(std::uint32_t flags, std::uint32_t known, std::string_view what);

}  // namespace lamina::registry::abi
