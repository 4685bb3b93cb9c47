// Opens regular files, and nothing that only looks like one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"

namespace lamina {

// A regular file, open for reading. Whatever else has the path is refused instead of waited for:
// a FIFO keeps open() until somebody writes to it, a terminal keeps read().
class InputFile {
 public:
  // Fails with a UserError of class `code` that names the path, and why it cannot be opened or what
  // it is. Never blocks.
  InputFile(const std::string& path, ExitCode code);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  int descriptor() const { return descriptor_; }
  std::uint64_t num_bytes() const { return num_bytes_; }  // when it was opened

 private:
  int descriptor_ = -1;
  std::uint64_t num_bytes_ = 0;
};

// open(2) with `flags`, O_CLOEXEC and permissions 0666, for a file that is written. A symbolic link
// is not followed, and what is no regular file is refused: nothing is written through the name to
// elsewhere. DeviceError of class checkpoint.
int open_regular_file(const std::string& path, int flags);

// What a file that is not regular is, for messages: "a directory", "a FIFO". `mode` is st_mode.
std::string_view file_kind(mode_t mode);

}  // namespace lamina
