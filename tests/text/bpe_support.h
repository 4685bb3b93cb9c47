// A small byte-level tokenizer.json for tests of faults: the 256 bytes and three merges.
#pragma once

#include <string>
#include <string_view>

#include "core/json_writer.h"
#include "core/utf8.h"

namespace lamina::text::testing {

// The character of GPT-2's alphabet for a byte.
inline std::string alphabet(int byte) {
  char32_t next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    const char32_t code = printable ? static_cast<char32_t>(b) : next++;
    if (b != byte) continue;
    std::string text;
    utf8_append(text, code);
    return text;
  }
  return "";
}

// `more_vocab` and `merges` are the contents of a JSON object and array; the other arguments are
// the values of their keys. Ids 0..255 are the bytes in order.
struct SmallTokenizer {
  std::string more_vocab = R"("ab":256,"abc":257,"bc":258)";
  std::string merges = R"("a b","ab c","b c")";
  std::string model_keys = R"("type":"BPE","ignore_merges":false)";
  std::string normalizer = "null";
  std::string pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})";
  std::string post_processor = "null";
  std::string decoder = R"({"type":"ByteLevel"})";
  std::string added_tokens = R"({"id":259,"content":"<end>","special":true})";

  std::string json() const {
    std::string vocab;
    for (int b = 0; b < 256; ++b) vocab += json_quote(alphabet(b)) + ":" + std::to_string(b) + ",";
    return "{\"normalizer\":" + normalizer + ",\n\"pre_tokenizer\":" + pre_tokenizer +
           ",\n\"post_processor\":" + post_processor + ",\n\"decoder\":" + decoder +
           ",\n\"added_tokens\":[" + added_tokens + "],\n\"model\":{" + model_keys +
           ",\n\"vocab\":{" + vocab + more_vocab + "},\n\"merges\":[" + merges + "]}}";
  }
};

}  // namespace lamina::text::testing
