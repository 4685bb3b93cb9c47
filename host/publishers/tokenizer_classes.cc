#include "publishers/tokenizer_classes.h"

#include <algorithm>

#include "core/error.h"

namespace lamina::publishers {
namespace {

constexpr TokenizerClass kClasses[] = {
#include "tokenizer_classes.inc"
};

}  // namespace

const TokenizerClass* find_tokenizer_class(std::string_view name) {
  const auto* found = std::ranges::find(kClasses, name, &TokenizerClass::name);
  return found == std::end(kClasses) ? nullptr : found;
}

const GgmlPreTokenizer& splitting_rules(std::string_view name) {
  const auto rules = ggml_pre_tokenizers();
  const auto found = std::ranges::find(rules, name, &GgmlPreTokenizer::name);
  LAMINA_ASSERT(found != rules.end());
  return *found;
}

}  // namespace lamina::publishers
