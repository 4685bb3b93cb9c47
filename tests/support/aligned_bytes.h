// Bytes at a multiple of 64, as kernels need their workspaces and packed operands.
#pragma once

#include <cstddef>
#include <vector>

namespace lamina::testing {

class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t count) : lines_((count + sizeof(Line) - 1) / sizeof(Line)) {}
  std::byte* data() { return lines_.empty() ? nullptr : lines_.front().bytes; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
};

}  // namespace lamina::testing
