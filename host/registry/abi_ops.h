// Checks the ops and attributes that a plugin uses against ops.def. Internal to registry.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/op.h"
#include "ops/decode_form.h"
#include "registry/abi_read.h"

namespace lamina::registry::abi {

using ops::NamedAttrs;

// Returns the op with this number. Throws ContractError if there is none, or if this host has
// another revision.
const Op& op(std::uint32_t id, std::uint32_t revision);

// Returns the attributes in `list`, with names borrowed from the op. Throws ContractError for
// unknown or duplicate keys, values of another kind, and missing required attributes.
NamedAttrs attrs(const Op& op, const lamina_span_t& list);

// Returns the values in the plugin's form; borrowed.
std::vector<lamina_value_t> value_views(std::span<const AttrValue> values);

// Throws ContractError if `flags` has bits outside `known`.
void check_flags(std::uint32_t flags, std::uint32_t known, std::string_view what);

}  // namespace lamina::registry::abi
