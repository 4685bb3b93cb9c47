// Thrown when the reader of stdout has closed it.
#pragma once

#include <exception>

namespace lamina {

// The reader of standard output went away (a pipe into `head`). main() ends without words, with
// exit code 141.
class BrokenPipe : public std::exception {
 public:
  const char* what() const noexcept override { return "the reader of stdout went away"; }
};

}  // namespace lamina
