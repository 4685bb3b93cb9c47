// Products by oneDNN, tile by tile on the threads of the pool.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/gemm/gemm.h"

namespace lamina::cpu {

// nullptr and a reason in *why where oneDNN has no fast kernel. REQUIRES: a spec with the strides
// filled in, and no dim that is 0.
std::unique_ptr<Gemm> make_onednn_gemm(const GemmSpec& spec, std::string* why);

}  // namespace lamina::cpu
