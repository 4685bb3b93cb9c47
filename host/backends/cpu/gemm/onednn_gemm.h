// Products by oneDNN, tile by tile on the threads of the pool.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/gemm/gemm.h"

namespace lamina::cpu {

// Returns nullptr and a reason in *why if oneDNN has no fast kernel. REQUIRES: all strides of the
// spec are set, and no dim is 0.
std::unique_ptr<Gemm> make_onednn_gemm(const GemmSpec& spec, std::string* why);

}  // namespace lamina::cpu
