// SentencePiece models of a few pieces, written as protocol buffers.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::text::testing {

inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  return out + static_cast<char>(value);
}
inline std::string integer_field(unsigned number, std::uint64_t value) {
  return varint(number << 3) + varint(value);
}
inline std::string bytes_field(unsigned number, std::string_view bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
inline std::string float_field(unsigned number, float value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return varint(number << 3 | 5) + bytes;
}

struct SmallPiece {
  std::string text;
  float score = 0;
  unsigned type = 1;  // normal; 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
};

struct SmallSentencePiece {
  std::vector<SmallPiece> pieces = {{"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}};
  unsigned model = 2;  // BPE; 1 Unigram
  bool byte_fallback = false;
  bool suffix = false;
  bool dummy_prefix = true;
  bool remove_extra = true;
  std::string character_map = "";

  SmallSentencePiece with(std::vector<SmallPiece> more) const {
    SmallSentencePiece out = *this;
    out.pieces.insert(out.pieces.end(), more.begin(), more.end());
    return out;
  }
  std::string bytes() const {
    std::string out;
    for (const SmallPiece& piece : pieces)
      out += bytes_field(1, bytes_field(1, piece.text) + float_field(2, piece.score) +
                                integer_field(3, piece.type));
    out += bytes_field(
        2, integer_field(3, model) + integer_field(24, suffix) + integer_field(35, byte_fallback));
    return out + bytes_field(3, bytes_field(2, character_map) + integer_field(3, dummy_prefix) +
                                    integer_field(4, remove_extra));
  }
};

}  // namespace lamina::text::testing
