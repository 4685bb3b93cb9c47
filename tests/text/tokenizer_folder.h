// Tokenizers from files that a test writes.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "core/error.h"
#include "support/temp_dir.h"
#include "text/tokenizer.h"

namespace lamina::text::testing {

using FilesByName = std::map<std::string, std::string>;

inline std::unique_ptr<Tokenizer> load(const FilesByName& files) {
  lamina::testing::TempDir dir;
  for (const auto& [name, bytes] : files) dir.write(name, bytes);
  return load_tokenizer(dir.path());
}

inline std::string base64(std::string_view bytes) {
  static constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      out += i + k > bytes.size() ? '=' : kAlphabet[bits >> (18 - 6 * k) & 63];
  }
  return out;
}

// The error for the files, from the name of the wrong file; "accepted" if they load.
inline std::string error_of(const FilesByName& files) {
  lamina::testing::TempDir dir;
  for (const auto& [name, bytes] : files) dir.write(name, bytes);
  try {
    load_tokenizer(dir.path());
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), ExitCode::checkpoint);
    return std::string(e.what()).substr(dir.path().size() + 1);
  }
  return "accepted";
}

}  // namespace lamina::text::testing
