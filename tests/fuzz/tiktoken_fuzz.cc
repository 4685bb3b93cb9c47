// The pattern and special tokens in a first line, then the ranks; what is accepted encodes a text
// and decodes every id.
#include "fuzz/tokenizer_use.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  const std::string_view text = fuzz::text_of(data, size);
  const std::size_t end = std::min(text.find('\n'), text.size());
  // The bytes, which every file must have, are not left to chance.
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
