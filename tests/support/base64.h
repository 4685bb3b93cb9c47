// Decodes base64 in golden cases.
#pragma once

#include <string>
#include <string_view>

namespace lamina::testing {

inline std::string base64_decode(std::string_view text) {
  std::string out;
  unsigned bits = 0;
  int num_bits = 0;
  for (char c : text) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const auto digit = kDigits.find(c);
    if (digit == kDigits.npos) break;
    bits = (bits << 6) | static_cast<unsigned>(digit);
    if ((num_bits += 6) >= 8) out += static_cast<char>((bits >> (num_bits -= 8)) & 0xff);
  }
  return out;
}

}  // namespace lamina::testing
