// Output files given by the user: links, devices, pipes, and refused kinds of files.
#pragma once

#include <string>

namespace lamina::io {

// How a named file is written. A regular file is replaced as a whole (io/durable_file.h); if it is
// a link, its target is replaced. A FIFO, a character device and a descriptor of this process
// (/dev/stdout, /dev/fd/N) are written in place, because a rename would replace them.
struct Destination {
  std::string path;  // with a final link resolved
  bool in_place = false;
  int descriptor = -1;  // of this process; -1 for none
};

// Checks the file system without writing. UserError: an empty name, a directory, a socket, a block
// device, a dangling link (exit 2); a file that cannot be written (exit 4).
Destination destination_of(const std::string& path);

// From now on /dev/stdout and the other names of descriptor 1 refer to `descriptor`, where the
// program keeps its standard output (cli/shell/terminal.h). [main thread, at the start]
void move_standard_output(int descriptor) noexcept;

// True for /dev/stdout and the other names of descriptor 1.
bool is_standard_output(const Destination& destination) noexcept;

// Opens a destination with `in_place` for writing; a FIFO blocks until it has a reader. The caller
// closes the descriptor. Errors: DeviceError of class checkpoint.
int open_in_place(const Destination& destination);

}  // namespace lamina::io
