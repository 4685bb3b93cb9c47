// "did you mean" for keys that do not exist.
#pragma once

#include <string>
#include <vector>

#include "config/schema.h"

namespace lamina::config {

// Returns a note for an unknown key. If the schema is a model's, and the key one of run files, it
// says so. Else it names the first of these that exist: the key with this name in other programs
// ("d_model"); keys of its section with its words ("sample_every"); the nearest one of its section;
// keys of its name in other sections ("steps"), or of its section whose descriptions have its
// words; all keys of a small section, or how to list them.
std::vector<std::string> suggest_keys(const Schema& schema, const std::string& typed);

}  // namespace lamina::config
