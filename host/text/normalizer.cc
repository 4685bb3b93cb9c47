#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "core/error.h"
#include "core/utf8.h"

namespace lamina::text {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::string normal_form(std::string_view text, int options) {
  utf8proc_uint8_t* out = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &out,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(out, &std::free);
  if (length < 0) user_error(ExitCode::data, "normalizing text", "{}", utf8proc_errmsg(length));
  return {reinterpret_cast<const char*>(out), static_cast<std::size_t>(length)};
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char32_t code = utf8_decode(text);
    // The one character whose lower case is two (SpecialCasing.txt, without conditions).
    if (code == 0x130)
      out += "i\xcc\x87";
    else
      utf8_append(out,
                  static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
    text.remove_prefix(length);
  }
  return out;
}

std::string strip_accents(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    switch (utf8proc_category(static_cast<utf8proc_int32_t>(utf8_decode(text)))) {
      case UTF8PROC_CATEGORY_MN:
      case UTF8PROC_CATEGORY_MC:
      case UTF8PROC_CATEGORY_ME:
        break;
      default:
        out.append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace

Normalizer::Normalizer(const JsonValue& json) {
  if (json && !json.is_null()) add(json);
}

void Normalizer::add(const JsonValue& json) {
  const std::string_view type = json.at("type").as_string();
  if (type == "Sequence") {
    for (JsonValue step : json.at("normalizers").elements()) add(step);
    return;
  }
  static constexpr struct {
    std::string_view name;
    Step step;
  } kSteps[] = {{"NFC", Step::nfc},
                {"NFD", Step::nfd},
                {"NFKC", Step::nfkc},
                {"NFKD", Step::nfkd},
                {"Lowercase", Step::lowercase},
                {"StripAccents", Step::strip_accents}};
  for (const auto& known : kSteps)
    if (type == known.name) {
      steps_.push_back(known.step);
      return;
    }
  json.at("type").fail(
      fmt::format("is {}, a normalizer that lamina does not have", json.at("type").describe()),
      {"it has NFC, NFD, NFKC, NFKD, Lowercase, StripAccents and Sequence"});
}

std::string Normalizer::normalize(std::string_view text) const {
  std::string out(text);
  for (Step step : steps_) {
    const bool ascii = is_ascii(out);
    switch (step) {
      case Step::nfc:
        if (!ascii) out = normal_form(out, UTF8PROC_COMPOSE);
        break;
      case Step::nfd:
        if (!ascii) out = normal_form(out, UTF8PROC_DECOMPOSE);
        break;
      case Step::nfkc:
        if (!ascii) out = normal_form(out, UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
        break;
      case Step::nfkd:
        if (!ascii) out = normal_form(out, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
        break;
      case Step::lowercase:
        out = lowercase(out);
        break;
      case Step::strip_accents:
        if (!ascii) out = strip_accents(out);
        break;
    }
  }
  return out;
}

}  // namespace lamina::text
