// Code shared by the fuzz targets. A target is one function, LLVMFuzzerTestOneInput: libFuzzer
// calls it with generated inputs (scripts/fuzz), replay.cc with kept inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.h"
#include "support/temp_dir.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace lamina::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Runs `action`. An error of the user, a plugin or the system is a refusal of the input; any other
// exception is a bug and ends the process.
template <typename Action>
void refuse_or_accept(Action action) {
  try {
    action();
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
  }
}

// A folder for parsers that read files, one per process.
inline const testing::TempDir& folder() {
  static const testing::TempDir made;
  return made;
}

// Writes a file in the folder and returns its path. An old file is removed first: some file systems
// sync a file that is truncated and rewritten.
inline std::string write(const std::string& name, std::string_view bytes) {
  std::filesystem::remove(folder() / name);
  return folder().write(name, bytes);
}

}  // namespace lamina::fuzz
