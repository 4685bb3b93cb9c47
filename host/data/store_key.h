// Names of token stores: equal names mean equal tokens.
#pragma once

#include <string>
#include <vector>

#include "data/reading.h"

namespace lamina::data {

// Returns 32 hex digits, a hash of the contents of all files, the tokenizer's files, the chat
// template and the reading options. `template_files` are the files of the chat template.
std::string store_key(const std::vector<std::vector<std::string>>& files, const Reading& reading,
                      const std::vector<std::string>& template_files);

}  // namespace lamina::data
