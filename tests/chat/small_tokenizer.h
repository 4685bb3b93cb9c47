// A tokenizer for tests. The token of a printable byte is the byte minus 33; space is 94 and line
// break is 95; the four control tokens start at 256.
#pragma once

#include <string>
#include <vector>

namespace lamina::testing {

inline const std::vector<std::string> kControlTokens = {"<s>", "<|user|>", "<|assistant|>",
                                                        "<|system|>"};

// Control tokens have ids from `id` up.
inline std::string tokenizer_json(const std::vector<std::string>& control_tokens = kControlTokens,
                                  int id = 256) {
  std::string vocab, added;
  // In the byte alphabet of byte-level vocabularies, printable ASCII bytes stand for themselves.
  for (int byte = 33; byte < 127; ++byte) {
    const char c = static_cast<char>(byte);
    const std::string key = c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    vocab += (vocab.empty() ? "\"" : ", \"") + key + "\": " + std::to_string(byte - 33);
  }
  vocab += ", \"\xc4\xa0\": 94, \"\xc4\x8a\": 95";  // space and line break
  for (const std::string& token : control_tokens)
    added +=
        (added.empty() ? std::string() : ", ") + R"({"id": )" + std::to_string(id++) +
        R"(, "content": ")" + token +
        R"(", "special": true, "normalized": false, "single_word": false, "lstrip": false, "rstrip": false})";
  return R"({"version": "1.0", "added_tokens": [)" + added +
         R"(], "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false,
             "trim_offsets": true, "use_regex": true}, "post_processor": null,
             "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
             "use_regex": true},
             "model": {"type": "BPE", "vocab": {)" +
         vocab + R"(}, "merges": []}})";
}

}  // namespace lamina::testing
