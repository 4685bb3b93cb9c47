// The host's [model] keys for any family, around the layers and in them: positions, changes of
// logits, dropout, norms of queries and keys, activations. Private to decoder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "decoder/graph/model_parts.h"

namespace lamina::decoder {

// Returns the entry of a host's key if it was given, else null.
const config::Entry* given_key(const ModelParts& parts, std::string_view key);
// UserError (exit 2): the entry cannot be combined with `why`.
[[noreturn]] void refuse_key(const config::Entry& entry, std::string_view why,
                             std::vector<std::string> notes = {"remove it"});

// Sets the options of the family from these keys. UserError (exit 2) if a key conflicts with the
// family's options, or would have no effect.
void apply_stack_keys(ModelParts& parts);
// Refuses keys that no block of the model can use.
void refuse_idle_keys(const ModelParts& parts, const BlockParts& has);

}  // namespace lamina::decoder
