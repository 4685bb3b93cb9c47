// Plugins built for these tests, and damaged copies of them.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "support/temp_dir.h"

namespace lamina::registry {

inline std::filesystem::path zoo(const std::string& name) {
  return std::filesystem::path(ZOO) / (name + ".lamina.so");
}

inline std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A folder that is removed with the object.
class Folder : private lamina::testing::TempDir {
 public:
  std::filesystem::path path() const { return std::filesystem::canonical(TempDir::path()); }
  std::filesystem::path operator/(const std::string& name) const { return path() / name; }
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    TempDir::write(name, bytes);
    return path() / name;
  }
  std::filesystem::path copy(const std::string& from, const std::string& name) const {
    return write(name, bytes_of(zoo(from)));
  }
};

}  // namespace lamina::registry
