#include "text/hf/normalizer.h"

#include <memory>

#include "core/error.h"
#include "core/utf8.h"
#include "text/characters.h"
#include "text/hf/byte_level.h"
#include "text/hf/json_parts.h"
#include "text/regex.h"
#include "text/sentencepiece/char_map.h"
#include "text/tiktoken/base64.h"
#include "text/unicode_forms.h"

namespace lamina::text {
namespace {

using Rewrite = Normalizer::Rewrite;

template <NormalForm form>
Rewrite normal_form(const JsonValue&) {
  return [](PieceWriter& out) { write_normal_form(out, form); };
}

Rewrite lowercase(const JsonValue&) { return write_lowercase; }
Rewrite strip_accents(const JsonValue&) { return write_without_accents; }

Rewrite strip(const JsonValue& json) {
  const bool left = json.at("strip_left").as_bool();
  const bool right = json.at("strip_right").as_bool();
  return [left, right](PieceWriter& out) {
    std::size_t begin = 0, end = out.rest().size();
    const std::string_view text = out.rest();
    if (left) begin = leading_space_bytes(text);
    if (right) end = trailing_space_begin(text);
    if (begin > 0) out.drop(begin);
    if (end < begin) end = begin;
    out.keep(end - begin);
    if (!out.done()) out.drop(out.rest().size());
  };
}

Rewrite prepend(const JsonValue& json) {
  return [text = std::string(json.at("prepend").as_string())](PieceWriter& out) {
    if (out.done() || text.empty()) return;
    out.insert(text);
    out.keep_rest();
  };
}

Rewrite replace(const JsonValue& json) {
  std::string content(json.at("content").as_string());
  const JsonValue pattern = json.at("pattern");
  if (const JsonValue regex = pattern.find("Regex")) {
    auto compiled = std::make_shared<const Regex>(
        regex.as_string(), fmt::format("{}: '{}'", regex.where(), regex.path()));
    return [compiled, content](PieceWriter& out) {
      if (out.done()) return;  // as in the reference, also if the pattern matches an empty text
      Regex::Searcher searcher(*compiled);
      const std::string_view text = out.rest();
      Regex::Match match;
      std::size_t done = 0;
      bool found = false;
      for (std::size_t at = 0; at <= text.size() && searcher.find(text, at, match);) {
        at = match.end;
        const bool is_empty = match.begin == match.end;
        if (is_empty) at += at < text.size() ? character_bytes(text[at]) : 1;
        // The reference's iterator skips an empty match at the end of another one.
        if (is_empty && found && match.begin == done) continue;
        out.keep(match.begin - done);
        if (is_empty)
          out.insert(content);
        else
          out.replace_as_last(match.end - match.begin, content);
        done = match.end;
        found = true;
      }
      out.keep_rest();
    };
  }
  const JsonValue literal = pattern.at("String");
  if (literal.as_string().empty()) literal.fail("must not be empty");
  return [literal = std::string(literal.as_string()), content](PieceWriter& out) {
    for (std::size_t at; (at = out.rest().find(literal)) != std::string_view::npos;) {
      out.keep(at);
      out.replace_as_last(literal.size(), content);
    }
    out.keep_rest();
  };
}

// By clusters of characters, if they are short, else by characters. SentencePiece's own
// implementation takes the longest string of the map anywhere.
Rewrite precompiled(const JsonValue& json) {
  const JsonValue value = json.at("precompiled_charsmap");
  if (value.is_null() || value.as_string().empty())
    return [](PieceWriter& out) { out.keep_rest(); };
  const auto bytes = base64_decode(value.as_string());
  if (!bytes) value.fail("is not base64");
  auto map =
      std::make_shared<const CharMap>(*bytes, fmt::format("{}: '{}'", value.where(), value.path()));
  return [map](PieceWriter& out) {
    constexpr std::size_t kShortCluster = 6;
    const auto write = [&](std::size_t length) {
      const CharMap::Match match = map->shortest(out.rest().substr(0, length));
      if (match.num_bytes == 0) return false;
      if (match.becomes.empty())
        out.drop_before_next(length);  // as the reference moves the characters after it
      else
        out.replace(length, match.becomes);
      return true;
    };
    while (!out.done()) {
      std::size_t cluster = grapheme_bytes(out.rest());
      if (cluster < kShortCluster && write(cluster)) continue;
      while (cluster > 0) {
        const std::size_t length = character_bytes(out.rest()[0]);
        if (!write(length)) out.keep(length);
        cluster -= length;
      }
    }
  };
}

Rewrite byte_level(const JsonValue&) { return write_byte_level; }

struct Kind {
  std::string_view name;
  Rewrite (*make)(const JsonValue& json);
};
constexpr Kind kKinds[] = {
    {"NFC", normal_form<NormalForm::nfc>},
    {"NFD", normal_form<NormalForm::nfd>},
    {"NFKC", normal_form<NormalForm::nfkc>},
    {"NFKD", normal_form<NormalForm::nfkd>},
    {"Lowercase", lowercase},
    {"Strip", strip},
    {"StripAccents", strip_accents},
    {"Prepend", prepend},
    {"Replace", replace},
    {"Precompiled", precompiled},
    {"ByteLevel", byte_level},
};

}  // namespace

Normalizer::Normalizer(const std::vector<Step>& steps) {
  for (Step step : steps) {
    switch (step) {
      case Step::nfc:
        steps_.push_back(normal_form<NormalForm::nfc>({}));
        break;
      case Step::nfd:
        steps_.push_back(normal_form<NormalForm::nfd>({}));
        break;
      case Step::nfkc:
        steps_.push_back(normal_form<NormalForm::nfkc>({}));
        break;
      case Step::nfkd:
        steps_.push_back(normal_form<NormalForm::nfkd>({}));
        break;
      case Step::lowercase:
        steps_.emplace_back(write_lowercase);
        break;
      case Step::strip_accents:
        steps_.emplace_back(write_without_accents);
        break;
    }
  }
}

Normalizer::Normalizer(const JsonValue& json) {
  if (json && !json.is_null()) add(json);
}

void Normalizer::add(const JsonValue& json) {
  if (json.at("type").as_string() == "Sequence") {
    for (JsonValue step : json.at("normalizers").elements()) add(step);
    return;
  }
  steps_.push_back(find_kind(kKinds, json, "normalizer").make(json));
}

TextPiece Normalizer::normalize(const TextPiece& piece, std::deque<PieceWriter>& owner) const {
  TextPiece out = piece;
  for (const Rewrite& step : steps_) {
    step(owner.emplace_back(out));
    out = owner.back().output();
  }
  return out;
}

std::string Normalizer::normalize(std::string_view text) const {
  std::deque<PieceWriter> owner;
  return std::string(normalize(TextPiece{text}, owner).text);
}

}  // namespace lamina::text
