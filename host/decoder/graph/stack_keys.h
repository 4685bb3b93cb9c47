// The host's [model] keys around the layers of any family, and in them: positions, what is done to
// logits, dropout, norms of queries and keys, activations. Private to decoder.
#pragma once

#include "decoder/graph/model_parts.h"

namespace lamina::decoder {

// The entry of a host's key that was given, else null.
const config::Entry* given_key(const ModelParts& parts, std::string_view key);
// UserError (exit 2): what was given does not go together with `why`.
[[noreturn]] void refuse_key(const config::Entry& entry, std::string_view why);

// Puts what they say into the options of the family. UserError (exit 2) where a key cannot be
// together with what the family has, or would have no effect.
void apply_stack_keys(ModelParts& parts);
// Refuses keys about what no block of a model has.
void refuse_idle_keys(const ModelParts& parts, const BlockParts& has);

}  // namespace lamina::decoder
