// What token stores are called: equal names have equal tokens.
#pragma once

#include <string>
#include <vector>

#include "data/reading.h"

namespace lamina::data {

// 32 hex digits, of the bytes of all files, of the tokenizer's files, of the chat template and of
// how documents are read. `template_files` are those that the template was read from.
std::string store_key(const std::vector<std::vector<std::string>>& files, const Reading& reading,
                      const std::vector<std::string>& template_files);

}  // namespace lamina::data
