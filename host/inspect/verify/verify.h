// Recomputes a golden case of another implementation, and compares.
#pragma once

#include <string>

#include "core/dtype.h"
#include "inspect/verify/report.h"
#include "registry/discovery.h"
#include "runtime/backend.h"

namespace lamina::inspect {

// Recomputes everything in the case. Runs in bf16 get the tolerance of their type.
VerifyReport verify_case(const std::string& directory, DType dtype,
                         const registry::Catalog& plugins, const Backend& backend);

}  // namespace lamina::inspect
