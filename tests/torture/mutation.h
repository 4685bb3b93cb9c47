// Damaged versions of good input: bytes, JSON structure, lines. They depend only on `random`.
#pragma once

#include <string>

#include "torture/random.h"

namespace lamina::torture {

// Changes, inserts, removes or doubles a few bytes or ranges, or truncates the end.
std::string mutate_bytes(Random& random, std::string bytes);

// A valid JSON text with values, members and elements removed, doubled, exchanged, truncated or
// replaced by difficult values; sometimes mutate_bytes().
std::string mutate_json(Random& random, std::string text);

// TOML, likewise: lines and values.
std::string mutate_toml(Random& random, std::string text);

// A safetensors file: its header as JSON, the header's length, or bytes anywhere.
std::string mutate_safetensors(Random& random, const std::string& file);

}  // namespace lamina::torture
