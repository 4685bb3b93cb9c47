// attention and attention_grad by cuDNN, where it is faster than the tiles of this folder.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "backends/cuda/kernel_support.h"

namespace lamina::cuda {

// Accepts 16-bit operands with causal masks, windows or no mask, and causal masks and windows over
// decode state, on the GPUs of dnn::usable(). With LAMINA_GPU_CUDNN=all, it also accepts
// segments, and two queries or more.
Verdict cudnn_takes_attention(const NodeView& n);
Verdict cudnn_takes_attention_grad(const NodeView& n);

// dS of one call for gradients; a larger one would take the memory that longer rows need. Rows of a
// batch are computed by several calls, each within it. Tests make it small.
inline std::int64_t most_logit_gradient_bytes = std::int64_t{1} << 30;

// Makes a kernel that computes the same node. `rare`: only calls with operands that do not begin at
// multiples of 16 bytes, so that little memory matters more than speed. Otherwise every call,
// because cuDNN refuses to plan a node that was accepted, after a warning with its reason.
using MakeTiles = std::function<std::unique_ptr<Kernel>(bool rare)>;
std::unique_ptr<Kernel> cudnn_attention(const NodeView& n, Context& context,
                                        const MakeTiles& make_tiles);
std::unique_ptr<Kernel> cudnn_attention_grad(const NodeView& n, Context& context,
                                             const MakeTiles& make_tiles);

}  // namespace lamina::cuda
