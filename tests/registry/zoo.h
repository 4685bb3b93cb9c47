// Plugins built for these tests, and damaged copies of them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace lamina::registry {

inline std::filesystem::path zoo(const std::string& name) {
  return std::filesystem::path(ZOO) / (name + ".lamina.so");
}

inline std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A folder that goes away with the object.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "lamina_registry_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
    path_ = std::filesystem::canonical(name);
  }
  ~Folder() { std::filesystem::remove_all(path_); }

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }
  std::filesystem::path copy(const std::string& from, const std::string& name) const {
    std::filesystem::copy_file(zoo(from), path_ / name);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace lamina::registry
