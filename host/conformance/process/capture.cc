#include "conformance/process/capture.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "conformance/check.h"
#include "core/printable.h"

namespace lamina::conformance {

Capture::Capture(int descriptor) : descriptor_(descriptor) {
  std::fflush(nullptr);
  kept_ = memfd_create("output of a plugin", MFD_CLOEXEC);
  outside_ = dup(descriptor);
  if (kept_ < 0 || outside_ < 0 || dup2(kept_, descriptor) < 0)
    fail("the system cannot create a file for its output");
}

Capture::~Capture() {
  std::fflush(nullptr);
  dup2(outside_, descriptor_);
  close(outside_);
  close(kept_);
}

std::string Capture::text() const {
  std::fflush(nullptr);
  std::array<char, 64> bytes{};
  const ssize_t count = pread(kept_, bytes.data(), bytes.size(), 0);
  return count > 0 ? printable(std::string(bytes.data(), static_cast<std::size_t>(count)), 64)
                   : std::string();
}

std::size_t Capture::num_bytes() const {
  std::fflush(nullptr);
  struct stat file {};
  return fstat(kept_, &file) == 0 ? static_cast<std::size_t>(file.st_size) : 0;
}

}  // namespace lamina::conformance
