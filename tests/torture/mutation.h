// Damaged versions of good input: bytes, JSON structure, lines. Each depends on `random` alone.
#pragma once

#include <string>

#include "torture/random.h"

namespace lamina::torture {

// A few bytes or stretches changed, inserted, removed, doubled, or the end cut off.
std::string mutate_bytes(Random& random, std::string bytes);

// A valid JSON text with values, members and elements removed, doubled, exchanged, cut short or
// replaced by values that programs stumble over; sometimes mutate_bytes().
std::string mutate_json(Random& random, std::string text);

// The same for TOML: lines and values.
std::string mutate_toml(Random& random, std::string text);

// A safetensors file: its header as JSON, the header's length, or bytes anywhere.
std::string mutate_safetensors(Random& random, const std::string& file);

}  // namespace lamina::torture
