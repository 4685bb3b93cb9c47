// Parses the bytes of a GGUF file into metadata and tensors.
#pragma once

#include <cstddef>
#include <vector>

#include "io/gguf_file.h"

namespace lamina::io {

// REQUIRES: a numeric type.
std::size_t gguf_number_bytes(GgufValue::Type type);

// Checks everything that GgufFile promises, except unique keys and names.
void read_gguf(const MappedFile& file, std::vector<GgufValue>& metadata,
               std::vector<GgufTensor>& tensors);

}  // namespace lamina::io
