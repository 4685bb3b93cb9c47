// Captures the output of a standard descriptor during its lifetime.
#pragma once

#include <string>

namespace lamina::conformance {

class Capture {
 public:
  // Throws Failure if the system cannot create a file for it.
  explicit Capture(int descriptor);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // The first part, made printable.
  std::string text() const;
  std::size_t num_bytes() const;

 private:
  int descriptor_, kept_, outside_;
};

}  // namespace lamina::conformance
