// tiktoken: the pattern and the special tokens in the first line, then the ranks. An accepted file
// encodes a text and decodes every id.
#include "fuzz/tokenizer_use.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  const std::string_view text = fuzz::text_of(data, size);
  const std::size_t end = std::min(text.find('\n'), text.size());
  // The ranks of the bytes, which every file must have, are not fuzzed.
  static const std::string bytes = [] {
    std::string out;
    for (unsigned b = 0; b < 256; ++b) {
      const std::string alphabet =
          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
      out += {alphabet[b >> 2], alphabet[(b & 3) << 4], '=', '='};
      out += " " + std::to_string(b) + "\n";
    }
    return out;
  }();
  fuzz::write("tiktoken.json", text.substr(0, end));
  fuzz::write("ranks.tiktoken", bytes + std::string(text.substr(std::min(end + 1, text.size()))));
  fuzz::use_tokenizer();
  return 0;
}
