// Common parts of window_pool and its gradient: checks, and the type of the result.
#pragma once

#include "ops/op.h"

namespace lamina::ops {

Type pooled_type(const Call& c);

}  // namespace lamina::ops
