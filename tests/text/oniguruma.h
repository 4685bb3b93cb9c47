// The regular expression engine of the reference tokenizer. Its header conflicts with the C
// library's regex.h, which GoogleTest includes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lamina::text {

// Start and end of each match, in bytes.
using Matches = std::vector<std::pair<std::size_t, std::size_t>>;

class Oniguruma {
 public:
  // Throws std::runtime_error for an invalid pattern.
  explicit Oniguruma(const std::string& pattern);
  ~Oniguruma();
  // All matches, up to the first empty one.
  Matches matches(const std::string& text) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace lamina::text
