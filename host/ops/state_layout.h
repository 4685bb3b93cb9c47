// How the memory of a decode state is laid out: a property of its kind.
#pragma once

#include "ops/decode_form.h"

namespace lamina::ops {

enum class StateLayout {
  slots,  // one row per token, or per stride of tokens; a ring where the latest rows are enough
  fixed,  // one size for any number of tokens
};

StateLayout layout_of(StateKind kind);

}  // namespace lamina::ops
