// Names of token stores: equal names mean equal tokens.
#pragma once

#include <string>
#include <vector>

#include "data/reading.h"

namespace lamina::data {

// Returns 32 hex digits, a hash of the contents of all files, the tokenizer's files, the chat form
// and the reading options.
std::string store_key(const std::vector<std::vector<std::string>>& files, const Reading& reading);

}  // namespace lamina::data
