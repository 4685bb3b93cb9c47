// Unicode normal forms and lower case: the normalizers of tokenizer.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace lamina::text {

class Normalizer {
 public:
  Normalizer() = default;  // changes nothing
  // The value of the key "normalizer"; may be null. Errors: a type that lamina lacks.
  explicit Normalizer(const JsonValue& json);

  bool changes_nothing() const { return steps_.empty(); }
  // `text` must be valid UTF-8.
  std::string normalize(std::string_view text) const;

 private:
  enum class Step { nfc, nfd, nfkc, nfkd, lowercase };
  void add(const JsonValue& json);
  std::vector<Step> steps_;
};

}  // namespace lamina::text
