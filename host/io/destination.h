// Files that the user names for writing: links, devices, pipes, and what is refused.
#pragma once

#include <string>

namespace lamina::io {

// How a named file is written. A regular file is replaced as a whole (io/durable_file.h): the file
// that a link names, and not the link. A FIFO, a character device and a descriptor of this process
// (/dev/stdout, /dev/fd/N) are written in place, since a rename would take them away.
struct Destination {
  std::string path;  // without links at its end
  bool in_place = false;
  int descriptor = -1;  // of this process; -1 for none
};

// Looks at the file system and writes nothing. UserError (exit 2): an empty name, a directory, a
// socket, a block device, a link to nothing, a file that may not be written.
Destination destination_of(const std::string& path);

// From now on /dev/stdout and the other names of descriptor 1 stand for `descriptor`, since the
// program keeps its standard output there (cli/terminal.h). [main thread, at the start]
void move_standard_output(int descriptor) noexcept;

// Opens a destination with `in_place` for writing; a FIFO waits for its reader. The caller closes
// the descriptor. DeviceError of class checkpoint.
int open_in_place(const Destination& destination);

}  // namespace lamina::io
