// The bytes of a GGUF file as metadata and tensors.
#pragma once

#include <cstddef>
#include <vector>

#include "io/gguf_file.h"

namespace lamina::io {

// REQUIRES: a type of numbers.
std::size_t gguf_number_bytes(GgufValue::Type type);

// Checks all that GgufFile promises, except that keys and names differ.
void read_gguf(const MappedFile& file, std::vector<GgufValue>& metadata,
               std::vector<GgufTensor>& tensors);

}  // namespace lamina::io
