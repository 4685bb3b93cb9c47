// Widens values that are stored in blocks, for kernels of plain values.
#pragma once

#include <memory>
#include <string>

#include "backends/cuda/launch.h"
#include "formats/block_formats.h"
#include "graph/type.h"
#include "runtime/kernel.h"

namespace lamina::cuda {

// Returns the format's name in the names of kernels, eg "q4_k".
std::string kernel_name(const formats::BlockFormat& format);

class Widener {
 public:
  // REQUIRES: the dtype is f32 or bf16.
  Widener(Context& context, const formats::BlockFormat& format, DType dtype);
  // Sets `to` to `count` values, whole blocks, each rounded once to the dtype.
  void run(const KernelArgs& args, const void* from, std::int64_t count, void* to) const;

 private:
  Function function_;
};

// Returns a kernel that widens input `input`, of this type, as a whole before `kernel` reads it
// plain; `kernel` itself if the type is plain.
std::unique_ptr<Kernel> with_widened(const Type& type, int input, Context& context,
                                     std::unique_ptr<Kernel> kernel);

}  // namespace lamina::cuda
