// The storage of a model's parameters as a table.
#pragma once

#include <string>
#include <vector>

#include "inspect/plan/storage.h"

namespace lamina::cli {

// A row for each name and storage, with shape and bytes; empty if all parameters are plain.
std::string storage_text(const std::vector<inspect::ParameterStorage>& parameters);

}  // namespace lamina::cli
