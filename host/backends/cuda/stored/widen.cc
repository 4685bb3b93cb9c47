#include "backends/cuda/stored/widen.h"

#include <cctype>

#include "backends/cuda/stored/params.h"

namespace lamina::cuda {

std::string kernel_name(const formats::BlockFormat& format) {
  std::string out(format.name);
  for (char& c : out) c = static_cast<char>(std::tolower(c));
  return out;
}

Widener::Widener(Context& context, const formats::BlockFormat& format, DType dtype)
    : function_(function(context, "widen_" + kernel_name(format), dtype)) {}

void Widener::run(const KernelArgs& args, const void* from, std::int64_t count, void* to) const {
  constexpr int kThreads = 256, kValues = 8;  // of a block, of a thread
  launch(args, function_, {.blocks = grid_for(count, kThreads * kValues), .threads = kThreads},
         WidenParams{.x = address(from), .y = address(to), .count = count});
}

}  // namespace lamina::cuda
