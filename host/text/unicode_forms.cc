#include "text/unicode_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "core/error.h"
#include "core/utf8.h"
#include "text/characters.h"
#include "text/unicode_versions.h"

namespace lamina::text {
namespace {

int options_of(NormalForm form) {
  switch (form) {
    case NormalForm::nfc:
      return UTF8PROC_COMPOSE;
    case NormalForm::nfd:
      return UTF8PROC_DECOMPOSE;
    case NormalForm::nfkc:
      return UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case NormalForm::nfkd:
      return UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  }
  return 0;
}

std::string normal_form(std::string_view text, NormalForm form) {
  utf8proc_uint8_t* out = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &out,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options_of(form)));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(out, &std::free);
  if (length < 0) user_error(ExitCode::data, "normalizing text", "{}", utf8proc_errmsg(length));
  return {reinterpret_cast<const char*>(out), static_cast<std::size_t>(length)};
}

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

// True for a character that no normal form changes and that does not compose with one before it.
bool is_inert(char32_t c) {
  if (c < 0xa0) return true;
  if (c >= 0x1100 && c < 0x1200) return false;  // Hangul jamo
  if (c >= 0xac00 && c < 0xd7a4) return false;
  const utf8proc_property_t* p = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  return p->combining_class == 0 && p->decomp_seqindex == UINT16_MAX &&
         (p->comb_index == UINT16_MAX || p->comb_index < 0x8000);
}

// True for a character that the reference's normal forms do not know: for them it is a base that
// nothing composes with.
bool is_unknown(char32_t c) {
  const auto range = std::ranges::lower_bound(kUnknownToNormalForms, c, {}, &CodeRange::last);
  return range != std::end(kUnknownToNormalForms) && range->first <= c;
}

// Bytes up to the place where the next character is not inert and may act on the one before it.
std::size_t inert_bytes(std::string_view text) {
  std::size_t last = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      last = at++;
      continue;
    }
    const char32_t c = utf8_decode(text.substr(at, 4));
    const std::size_t next = at + character_bytes(text[at]);
    if (is_inert(c))
      last = at;
    else if (is_unknown(c))
      last = next;
    else
      return last;
    at = next;
  }
  return text.size();
}

// The rest up to two inert or unknown characters; the second begins a new part.
std::size_t active_bytes(std::string_view text) {
  std::size_t at = character_bytes(text[0]);
  while (at < text.size()) {
    const char32_t c = utf8_decode(text.substr(at, 4));
    if (is_inert(c) || is_unknown(c)) break;
    at += character_bytes(text[at]);
  }
  return at;
}

// Code points of the character's full decomposition.
std::size_t num_parts(std::string_view character, NormalForm form) {
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  return utf8_num_characters(
      normal_form(character, compatible ? NormalForm::nfkd : NormalForm::nfd));
}

// Replaces the next bytes by `with`; each character of it has as origin the character that its
// first part belonged to.
void replace_by_parts(PieceWriter& out, std::size_t num_bytes, std::string_view with,
                      NormalForm form) {
  std::size_t reached = 0;  // parts written
  std::size_t before = 0;   // parts read
  while (!with.empty()) {
    while (num_bytes > 0) {
      const std::size_t length = character_bytes(out.rest()[0]);
      const std::size_t parts = num_parts(out.rest().substr(0, length), form);
      if (before + parts > reached || num_bytes == length) break;
      before += parts;
      num_bytes -= length;
      out.drop(length);
    }
    const std::string_view character = with.substr(0, character_bytes(with[0]));
    out.insert(character);
    reached += num_parts(character, form);
    with.remove_prefix(character.size());
  }
  out.drop(num_bytes);
}

char32_t lowercase_of(char32_t c) {
  for (const LowercaseRange& range : kNewerLowercase)
    if (c >= range.upper.first && c <= range.upper.last)
      return static_cast<char32_t>(static_cast<std::int32_t>(c) + range.distance);
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

bool is_accent(char32_t c) {
  if (c >= kFormerMarks.first && c <= kFormerMarks.last) return true;
  const utf8proc_category_t of = category(c);
  return (of == UTF8PROC_CATEGORY_MN || of == UTF8PROC_CATEGORY_MC || of == UTF8PROC_CATEGORY_ME) &&
         !is_unknown(c);
}

}  // namespace

void write_normal_form(PieceWriter& out, NormalForm form) {
  while (!out.done()) {
    if (const std::size_t same = inert_bytes(out.rest()); same > 0) {
      out.keep(same);
      if (out.done()) return;
    }
    const std::string_view part = out.rest().substr(0, active_bytes(out.rest()));
    const std::string formed = normal_form(part, form);
    if (formed == part)
      out.keep(part.size());
    else if (out.input().origins || out.is_at_start())  // the start is one character only
      replace_by_parts(out, part.size(), formed, form);
    else
      out.replace(part.size(), formed);
  }
}

void write_lowercase(PieceWriter& out) {
  while (!out.done()) {
    const std::string_view rest = out.rest();
    const std::size_t length = character_bytes(rest[0]);
    const char32_t code = utf8_decode(rest);
    std::string lower;
    // The only character whose lower case has two characters (SpecialCasing.txt, unconditional
    // mappings).
    if (code == 0x130)
      lower = "i\xcc\x87";
    else
      utf8_append(lower, lowercase_of(code));
    if (lower == rest.substr(0, length))
      out.keep(length);
    else
      out.replace(length, lower);
  }
}

void write_without_accents(PieceWriter& out) {
  while (!out.done()) {
    const std::size_t length = character_bytes(out.rest()[0]);
    if (is_accent(utf8_decode(out.rest())))
      out.drop(length);
    else
      out.keep(length);
  }
}

std::size_t grapheme_bytes(std::string_view text) {
  utf8proc_int32_t state = 0;
  auto last = static_cast<utf8proc_int32_t>(utf8_decode(text));
  std::size_t at = character_bytes(text[0]);
  while (at < text.size()) {
    const auto next = static_cast<utf8proc_int32_t>(utf8_decode(text.substr(at, 4)));
    if (utf8proc_grapheme_break_stateful(last, next, &state)) break;
    last = next;
    at += character_bytes(text[at]);
  }
  return at;
}

}  // namespace lamina::text
