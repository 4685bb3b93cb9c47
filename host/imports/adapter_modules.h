// The modules that get an adapter: a regular expression of MaxText's module paths.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lamina::imports {

struct AdapterModule {
  // All spellings of its path, per kind of layer that has it; {} is the number of a layer.
  std::vector<std::string> paths;
  std::string name;  // ours; "" if it cannot have an adapter
};

// Returns the names of the modules whose whole paths `pattern` matches, as in qwix. Modules of one
// name must match together, in all of `num_layers` layers. Throws UserError at `place` if `pattern`
// is not a regular expression, or matches only some layers, a module that cannot have an adapter,
// or none.
std::vector<std::string> match_adapter_modules(const std::string& pattern,
                                               const std::vector<AdapterModule>& modules,
                                               std::int64_t num_layers, const std::string& place);

}  // namespace lamina::imports
