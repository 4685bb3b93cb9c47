// Converts the pre_tokenizer of tokenizer.json to steps of a splitter.
#include "core/error.h"
#include "text/characters.h"
#include "text/hf/json_parts.h"
#include "text/hf/splitter.h"

namespace lamina::text {
namespace {

// The pattern of ByteLevel, from GPT-2 (Radford et al. 2019).
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Flattens sequences.
void flatten(const JsonValue& json, std::vector<JsonValue>& steps) {
  if (!json || json.is_null()) return;
  if (json.at("type").as_string() != "Sequence") return steps.push_back(json);
  for (JsonValue step : json.at("pretokenizers").elements()) flatten(step, steps);
}

bool flag(const JsonValue& json, std::string_view key, bool absent) {
  const JsonValue value = json.find(key);
  return value && !value.is_null() ? value.as_bool() : absent;
}

}  // namespace

struct Splitter::Kind {
  std::string_view name;
  void (Splitter::*add)(const JsonValue& json);
};
constexpr Splitter::Kind Splitter::kKinds[] = {
    {"ByteLevel", &Splitter::add_byte_level},
    {"Split", &Splitter::add_split},
    {"Digits", &Splitter::add_digits},
    {"Metaspace", &Splitter::add_metaspace},
    {"Whitespace", &Splitter::add_whitespace},
    {"WhitespaceSplit", &Splitter::add_whitespace_split},
    {"Punctuation", &Splitter::add_punctuation},
};

Splitter::Splitter(const JsonValue& json, const std::string& file, Bytes bytes)
    : file_(file), bytes_(bytes) {
  std::vector<JsonValue> steps;
  flatten(json, steps);
  for (const JsonValue& step : steps) (this->*find_kind(kKinds, step, "pre_tokenizer").add)(step);
}

Splitter::Splitter(std::string_view pattern, std::string where, Regex::Dialect dialect) {
  add_regex(pattern, std::move(where), dialect);
}

bool Splitter::ends_with_byte_level(const JsonValue& json) {
  std::vector<JsonValue> steps;
  flatten(json, steps);
  for (std::size_t i = 0; i < steps.size(); ++i)
    if ((steps[i].at("type").as_string() == "ByteLevel") != (i + 1 == steps.size())) return false;
  return !steps.empty();
}

void Splitter::add_regex(std::string_view pattern, std::string where, Regex::Dialect dialect) {
  steps_.push_back({.kind = Step::Kind::regex, .regex = regexes_.size()});
  regexes_.emplace_back(pattern, std::move(where), dialect);
}

void Splitter::add_byte_level(const JsonValue& json) {
  if (flag(json, "add_prefix_space", true)) steps_.push_back({.kind = Step::Kind::prefix_space});
  if (flag(json, "use_regex", true))
    add_regex(kByteLevelPattern, file_ + ": the pattern of ByteLevel");
  if (bytes_ == Bytes::spelled) steps_.push_back({.kind = Step::Kind::spell_bytes});
}

void Splitter::add_digits(const JsonValue& json) {
  const bool individual = json.at("individual_digits").as_bool();
  steps_.push_back({.kind = Step::Kind::characters,
                    .behavior = individual ? Behavior::isolated : Behavior::contiguous,
                    .character = is_numeric});
}

void Splitter::add_punctuation(const JsonValue& json) {
  const JsonValue behavior = json.find("behavior");
  steps_.push_back({.kind = Step::Kind::characters,
                    .behavior = behavior ? read_behavior(behavior) : Behavior::isolated,
                    .character = is_punctuation});
}

void Splitter::add_whitespace(const JsonValue&) { steps_.push_back({.kind = Step::Kind::words}); }

void Splitter::add_whitespace_split(const JsonValue&) {
  steps_.push_back(
      {.kind = Step::Kind::characters, .behavior = Behavior::removed, .character = is_space});
}

void Splitter::add_metaspace(const JsonValue& json) {
  const JsonValue replacement = json.at("replacement");
  const std::string_view character = replacement.as_string();
  if (character.empty() || character_bytes(character[0]) != character.size())
    replacement.fail(fmt::format("must be one character, got {}", replacement.describe()));
  Step step{.kind = Step::Kind::metaspace,
            .literal = std::string(character),
            .scheme = PrependScheme::always};
  if (const JsonValue scheme = json.find("prepend_scheme"); scheme && !scheme.is_null()) {
    if (scheme.as_string() == "first")
      step.scheme = PrependScheme::first;
    else if (scheme.as_string() == "never")
      step.scheme = PrependScheme::never;
    else if (scheme.as_string() != "always")
      scheme.fail(fmt::format("is {}; expected always, first or never", scheme.describe()));
  } else if (!flag(json, "add_prefix_space", true)) {  // in older files
    step.scheme = PrependScheme::never;
  }
  steps_.push_back(step);
  if (!flag(json, "split", true)) return;
  steps_.push_back({.kind = Step::Kind::literal,
                    .behavior = Behavior::merged_with_next,
                    .literal = std::string(character)});
}

void Splitter::add_split(const JsonValue& json) {
  const JsonValue pattern = json.at("pattern");
  if (const JsonValue regex = pattern.find("Regex")) {
    add_regex(regex.as_string(), fmt::format("{}: '{}'", regex.where(), regex.path()));
  } else {
    const JsonValue literal = pattern.at("String");
    if (literal.as_string().empty()) literal.fail("must not be empty");
    steps_.push_back({.kind = Step::Kind::literal, .literal = std::string(literal.as_string())});
  }
  Step& step = steps_.back();
  step.invert = json.at("invert").as_bool();
  step.behavior = read_behavior(json.at("behavior"));
}

Splitter::Behavior Splitter::read_behavior(const JsonValue& json) {
  static constexpr struct {
    std::string_view name;
    Behavior behavior;
  } kBehaviors[] = {{"Removed", Behavior::removed},
                    {"Isolated", Behavior::isolated},
                    {"Contiguous", Behavior::contiguous},
                    {"MergedWithPrevious", Behavior::merged_with_previous},
                    {"MergedWithNext", Behavior::merged_with_next}};
  for (const auto& known : kBehaviors)
    if (json.as_string() == known.name) return known.behavior;
  json.fail(
      fmt::format("is {}; expected Removed, Isolated, Contiguous, MergedWithPrevious or "
                  "MergedWithNext",
                  json.describe()));
}

}  // namespace lamina::text
