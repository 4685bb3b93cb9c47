// Unicode normal forms (UAX #15), lower case and the removal of accents, written piece by piece.
#pragma once

#include <string_view>

#include "text/traced.h"

namespace lamina::text {

enum class NormalForm { nfc, nfd, nfkc, nfkd };
void write_normal_form(PieceWriter& out, NormalForm form);
void write_lowercase(PieceWriter& out);
void write_without_accents(PieceWriter& out);  // without combining marks (general category M)

// Bytes of the first extended grapheme cluster (UAX #29) of `text`. REQUIRES: valid UTF-8, not
// empty.
std::size_t grapheme_bytes(std::string_view text);

}  // namespace lamina::text
