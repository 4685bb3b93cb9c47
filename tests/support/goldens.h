// Finds golden cases: in $LAMINA_GOLDENS, else in tests/golden. Tests list folders there, so a new
// case is a new test without code.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/paths.h"

namespace lamina::testing {

inline std::filesystem::path golden_dir() {
  const char* set = std::getenv("LAMINA_GOLDENS");
  return set && *set ? std::filesystem::path(set)
                     : std::filesystem::path(LAMINA_SOURCE_DIR) / "tests" / "golden";
}

// Returns the folders directly under golden_dir()/part that contain `file`, sorted.
inline std::vector<std::filesystem::path> golden_folders(const std::string& part,
                                                         const std::string& file) {
  std::vector<std::filesystem::path> folders;
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(golden_dir() / part, ec))
    if (entry.is_directory() && std::filesystem::exists(entry.path() / file))
      folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

// The same, for folders whose names begin with `prefix`.
inline std::vector<std::filesystem::path> golden_folders(const std::string& part,
                                                         const std::string& file,
                                                         const std::string& prefix) {
  std::vector<std::filesystem::path> folders = golden_folders(part, file);
  std::erase_if(folders, [&](const std::filesystem::path& folder) {
    return !folder.filename().string().starts_with(prefix);
  });
  return folders;
}

// Turns `text` into a name that GoogleTest accepts.
inline std::string test_name(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}

}  // namespace lamina::testing
