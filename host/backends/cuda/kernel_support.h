// The headers that the ops.cc of a family needs.
#pragma once

#include "backends/cuda/kernels.h"
#include "backends/cuda/launch.h"
#include "core/dtype.h"
#include "runtime/backend.h"
#include "runtime/kernel.h"
#include "runtime/kernel_checks.h"
