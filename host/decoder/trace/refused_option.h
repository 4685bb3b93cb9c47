// Private to decoder.
#pragma once

#include "core/error.h"

namespace lamina::decoder {

// A key of the host does not go with what the block is made of. Thrown while a plugin builds, which
// is not to blame: trace_block() makes it a UserError (exit 2).
struct RefusedOption {
  ErrorText text;
};

}  // namespace lamina::decoder
