// tekken.json: the config in the first line, the special tokens in the second, then entries of the
// vocabulary after the bytes. An accepted file encodes a text and decodes every id.
#include "fuzz/tokenizer_use.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  std::string_view text = fuzz::text_of(data, size);
  const auto line = [&text] {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view out = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return std::string(out);
  };
  const std::string config = line(), special = line();
  // The entries of the bytes, which every file must have, are not fuzzed.
  static const std::string bytes = [] {
    std::string out;
    for (unsigned b = 0; b < 256; ++b) {
      const std::string alphabet =
          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
      const std::string base64{alphabet[b >> 2], alphabet[(b & 3) << 4], '=', '='};
      out += (b > 0 ? ",{\"rank\":" : "{\"rank\":") + std::to_string(b) + ",\"token_bytes\":\"" +
             base64 + "\"}";
    }
    return out;
  }();
  fuzz::write("tekken.json", "{\"config\":" + config + ",\"special_tokens\":" + special +
                                 ",\"vocab\":[" + bytes + std::string(text) + "]}");
  fuzz::use_tokenizer();
  return 0;
}
