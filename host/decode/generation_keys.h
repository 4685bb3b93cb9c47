// The names of generation options: on command lines and in chats, and in generation_config.json.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "decode/generate.h"

namespace lamina::decode {

// The type of the field of a value.
using Ids = std::vector<std::int32_t>;
using Words = std::vector<Ids>;
using Biases = std::vector<std::pair<std::int32_t, double>>;
using Texts = std::vector<std::string>;
using Place = std::variant<double*, std::int64_t*, std::uint64_t*, Ids*, Words*, Biases*, Texts*,
                           bool*, EarlyStopping*>;

// The largest logit bias: logits are float32. -inf excludes a token.
inline constexpr double kMaxBias = static_cast<double>(std::numeric_limits<float>::max());

// The way of choosing tokens that an option serves.
enum class TokenChoice { any, drawing, beams };

struct GenerationKey {
  const char* name;        // of the option: "top-p"; "" for keys in files only
  const char* config_key;  // in generation_config.json: "top_p"; "" for none
  Place (*place)(GenerateOptions&);
  const char* value;  // the value's name in help: "P"
  const char* doc;
  std::optional<double> min = {}, max = {};
  TokenChoice choice = TokenChoice::any;
};

// The name of a key in GenerationConfig: of generation_config.json, or of the option if it has none
// there.
constexpr std::string_view name_in_files(const GenerationKey& key) {
  return *key.config_key ? key.config_key : key.name;
}

// Options that end a text, then options that choose its tokens, in the order of their effect.
std::span<const GenerationKey> generation_keys();

// Returns whether float32, the type of logits, represents the magnitude of a number.
bool fits_float32(double value);

// "yes", "no", "never"; empty for other values.
std::string_view name(EarlyStopping when);
std::optional<EarlyStopping> parse_early_stopping(std::string_view text);

// The value of an empty list in value_text().
constexpr const char* kNone = "none";

// "0.6"; "1,2,3"; "none". Texts with control characters are in quotes.
std::string value_text(const GenerationKey& key, GenerateOptions options);

}  // namespace lamina::decode
