// Unicode normal forms, lower case, accents: the normalizers of tokenizer.json.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"

namespace lamina::text {

class Normalizer {
 public:
  // strip_accents drops combining marks (general category M).
  enum class Step { nfc, nfd, nfkc, nfkd, lowercase, strip_accents };

  Normalizer() = default;  // changes nothing
  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}
  // The value of the key "normalizer"; may be null. Errors: a type that lamina lacks.
  explicit Normalizer(const JsonValue& json);

  bool changes_nothing() const { return steps_.empty(); }
  // `text` must be valid UTF-8.
  std::string normalize(std::string_view text) const;

 private:
  void add(const JsonValue& json);
  std::vector<Step> steps_;
};

}  // namespace lamina::text
