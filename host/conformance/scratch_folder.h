// A folder for files of a check, gone with the object.
#pragma once

#include <filesystem>
#include <string>

namespace lamina::conformance {

class ScratchFolder {
 public:
  // Throws DeviceError where the system gives none.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace lamina::conformance
