#include "text/oniguruma.h"

#include <oniguruma.h>

#include <stdexcept>

namespace lamina::text {

struct Oniguruma::Compiled {
  regex_t* regex = nullptr;
  OnigRegion* region = onig_region_new();
  ~Compiled() {
    onig_region_free(region, 1);
    onig_free(regex);
  }
};

Oniguruma::Oniguruma(const std::string& pattern) : compiled_(std::make_unique<Compiled>()) {
  const auto* begin = reinterpret_cast<const OnigUChar*>(pattern.data());
  if (onig_new(&compiled_->regex, begin, begin + pattern.size(), ONIG_OPTION_NONE,
               ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT, nullptr) != ONIG_NORMAL)
    throw std::runtime_error("Oniguruma refuses " + pattern);
}

Oniguruma::~Oniguruma() = default;

Matches Oniguruma::matches(const std::string& text) const {
  Matches out;
  const auto* begin = reinterpret_cast<const OnigUChar*>(text.data());
  const OnigUChar* end = begin + text.size();
  for (const OnigUChar* at = begin; at < end; at = begin + out.back().second) {
    const int found =
        onig_search(compiled_->regex, begin, end, at, end, compiled_->region, ONIG_OPTION_NONE);
    if (found < 0 || compiled_->region->end[0] == found) break;
    out.emplace_back(static_cast<std::size_t>(found),
                     static_cast<std::size_t>(compiled_->region->end[0]));
  }
  return out;
}

}  // namespace lamina::text
