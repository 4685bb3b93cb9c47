// Loads tokenizers from Hugging Face's tokenizer.json.
#pragma once

#include <memory>
#include <string>

#include "text/hf/tokenizer_files.h"
#include "text/tokenizer.h"

namespace lamina::text {

// Reads `directory`/tokenizer.json and, for the names of BOS and EOS, tokenizer_config.json or
// special_tokens_map.json. Ids come from tokenizer.json only.
std::unique_ptr<Tokenizer> load_tokenizer_json(const std::string& directory);

}  // namespace lamina::text
