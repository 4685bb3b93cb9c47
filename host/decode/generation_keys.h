// The names of what can be said about generating: those of command lines and chats, and those of
// generation_config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "decode/generate.h"

namespace lamina::decode {

// Where a value is kept, by its type.
using Ids = std::vector<std::int32_t>;
using Words = std::vector<Ids>;
using Biases = std::vector<std::pair<std::int32_t, double>>;
using Texts = std::vector<std::string>;
using Place = std::variant<double*, std::int64_t*, std::uint64_t*, Ids*, Words*, Biases*, Texts*,
                           bool*, EarlyStopping*>;

struct GenerationKey {
  const char* name;        // of the option: "top-p"; "" where only files say it
  const char* config_key;  // of generation_config.json: "top_p"; "" for none
  Place (*place)(GenerateOptions&);
  const char* value;  // how help calls it: "P"
  const char* doc;
  std::optional<double> min = {}, max = {};
  bool of_beams = false;  // beam search alone has it
};

// What ends a text, then what chooses its tokens in the order in which it acts.
std::span<const GenerationKey> generation_keys();

// "yes", "no", "never"; nothing for any other text.
std::string_view name(EarlyStopping when);
std::optional<EarlyStopping> parse_early_stopping(std::string_view text);

// "0.6"; "1,2,3"; "none".
std::string value_text(const GenerationKey& key, GenerateOptions options);

}  // namespace lamina::decode
