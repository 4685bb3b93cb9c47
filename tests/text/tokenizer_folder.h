// Tokenizers out of files that a test writes.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

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

// What is said of the files, from the name of the wrong one on; "accepted" where they load.
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
