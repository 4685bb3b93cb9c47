// Opens regular files only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"

namespace lamina {

// A regular file, open for reading. Other kinds of files are refused, because they may block:
// open() of a FIFO waits for a writer, read() of a terminal waits for input.
class InputFile {
 public:
  // Errors: a UserError of class `code` with the path and the reason. Never blocks. "-" is no name
  // of stdin: options that read it do so themselves.
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

// Calls open(2) with `flags`, O_CLOEXEC and permissions 0666, for an output file. Symbolic links
// are not followed and files that are not regular are refused, so nothing is written elsewhere.
// Errors: DeviceError of class checkpoint.
int open_regular_file(const std::string& path, int flags);

// Describes a file that is not regular, for messages: "a directory", "a FIFO". `mode` is st_mode.
std::string_view file_kind(mode_t mode);

}  // namespace lamina
