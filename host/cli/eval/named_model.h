// The evaluated model as results name it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/shell/command.h"
#include "core/json_writer.h"
#include "model/open.h"

namespace lamina::cli {

// Its place, and the options that change what it computes, in order: "model", "adapter", "weights",
// "quantize", "quantize_rules", "kv_dtype".
using NamedModel = std::vector<std::pair<std::string, std::string>>;

NamedModel name_model(const Arguments& a, const model::OpenedModel& opened);

// A line for each, with the values at the column `width`.
std::string model_lines(const NamedModel& named, std::size_t width);
// A member for each.
void write_model(JsonWriter& json, const NamedModel& named);

}  // namespace lamina::cli
