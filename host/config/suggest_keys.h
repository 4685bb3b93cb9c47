// "did you mean" for keys that do not exist.
#pragma once

#include <string>
#include <vector>

#include "config/schema.h"

namespace lamina::config {

// Returns a note that names the key nearest to an unknown one, else keys with its name in other
// sections ("steps"), else keys of its section whose descriptions have its words
// ("optimizer.learning_rate"), else all keys of a small section; nothing if there are none.
std::vector<std::string> suggest_keys(const Schema& schema, const std::string& typed);

}  // namespace lamina::config
