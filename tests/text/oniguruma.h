// The regular expression engine of the reference tokenizer. Its header does not go together with
// that of the C library, which GoogleTest includes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lamina::text {

// Where each match begins and ends, in bytes.
using Matches = std::vector<std::pair<std::size_t, std::size_t>>;

class Oniguruma {
 public:
  // Throws std::runtime_error for what is no pattern.
  explicit Oniguruma(const std::string& pattern);
  ~Oniguruma();
  // All matches, up to one that is empty.
  Matches matches(const std::string& text) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace lamina::text
