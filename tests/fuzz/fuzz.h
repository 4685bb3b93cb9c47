// What the fuzz targets share. A target is one function, LLVMFuzzerTestOneInput: libFuzzer calls it
// with inputs that it makes up (scripts/fuzz), replay.cc with those that are kept.
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

// Runs `action`. An input may be refused, by an error that is the user's, the plugin's or the
// system's; anything else that is thrown is a bug and ends the process.
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

// Writes a file in there and returns its path. Removed first: some file systems sync a file that is
// cut to nothing and written again.
inline std::string write(const std::string& name, std::string_view bytes) {
  std::filesystem::remove(folder() / name);
  return folder().write(name, bytes);
}

}  // namespace lamina::fuzz
