// Generates the tables of docs/from_maxtext.md.
#pragma once

#include <string>

namespace lamina::imports {

// Returns Markdown that describes the conversion of each key, from configs/import/maxtext.toml.
std::string key_tables();

}  // namespace lamina::imports
