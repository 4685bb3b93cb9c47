// JSON output of `lamina plugin inspect`.
#pragma once

#include <string>
#include <vector>

#include "registry/discovery.h"
#include "registry/family.h"

namespace lamina::cli {

std::string inspect_json(const registry::PluginFile& plugin,
                         const std::vector<registry::Family>& families);

}  // namespace lamina::cli
