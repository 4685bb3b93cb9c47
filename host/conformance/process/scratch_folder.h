// A folder for files of a check, removed with the object.
#pragma once

#include <filesystem>
#include <string>

namespace lamina::conformance {

class ScratchFolder {
 public:
  // Throws DeviceError if the folder cannot be created.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace lamina::conformance
