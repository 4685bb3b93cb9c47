// Every use of a tokenizer of the folder, for the fuzz targets of its formats.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "fuzz/fuzz.h"
#include "text/tokenizer.h"

namespace lamina::fuzz {

inline void use_tokenizer() {
  refuse_or_accept([] {
    const auto tokenizer = text::load_tokenizer(folder().path());
    const std::string_view text = "ab <s>abba</s> caf\xc3\xa9\n  1234 \xff ABBA";
    for (bool parse_special : {false, true}) {
      const auto ids = tokenizer->encode(text, {.parse_special = parse_special});
      refuse_or_accept([&] { static_cast<void>(tokenizer->decode(ids)); });
      const auto encoding = tokenizer->encode_with_spans(text, {.parse_special = parse_special});
      if (encoding.ids != ids || encoding.spans.size() != ids.size()) std::abort();
      const auto stream = tokenizer->stream();
      for (text::TokenId id : ids) static_cast<void>(stream->push(id));
      static_cast<void>(stream->finish());
    }
    const auto num_ids =
        static_cast<text::TokenId>(std::min<std::int64_t>(tokenizer->vocab_size(), 1000));
    for (text::TokenId id = 0; id < num_ids; ++id)
      static_cast<void>(tokenizer->token_bytes(id).size() + tokenizer->spelling(id).size() +
                        tokenizer->is_special(id));
  });
}

}  // namespace lamina::fuzz
