#include "text/hf/word_level.h"

#include "core/error.h"
#include "core/printable.h"

namespace lamina::text {

WordLevel::WordLevel(const JsonValue& model)
    : vocabulary_(Vocabulary::read(model.at("vocab"), Vocabulary::Form::text)),
      unknown_(vocabulary_.find(model.at("unk_token").as_string())) {}

void WordLevel::encode(std::string_view word, TokenSink& out) const {
  const auto id = vocabulary_.find(word);
  if (!id && !unknown_)
    user_error(ExitCode::data, "encoding text",
               "the vocabulary has no token for '{}' and no unknown token; remove such "
               "text, or use another tokenizer",
               printable(word, 40));
  out.add(id ? *id : *unknown_, 0, word.size());
}

}  // namespace lamina::text
