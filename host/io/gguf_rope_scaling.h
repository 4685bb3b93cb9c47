// Converts the scaling of rotary positions in a GGUF file: keys of the metadata, and tensors with
// the divisors of frequencies.
#pragma once

#include "io/gguf_config_writer.h"

namespace lamina::io {

// Writes the object "rope_scaling" if the file scales positions. Errors (class checkpoint): a kind
// of scaling that config.json does not describe; divisors that match no scaling.
void write_rope_scaling(GgufConfigWriter& out);

}  // namespace lamina::io
