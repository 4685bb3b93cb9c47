// The memory of a training run by purpose, for tables and JSON.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "inspect/plan/model_plan.h"

namespace lamina::cli {

// Names and bytes of the parts that are not empty. `compute`: the type that products read.
std::vector<std::pair<std::string, std::size_t>> memory_rows(const inspect::TrainMemory& memory,
                                                             DType compute);
// All parts, by their names in JSON.
std::vector<std::pair<const char*, std::size_t>> memory_fields(const inspect::TrainMemory& memory);

}  // namespace lamina::cli
