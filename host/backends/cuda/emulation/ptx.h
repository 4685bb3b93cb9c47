// PTX of plugins, as the double of the driver reads it: the GPU that it is for, and its kernels.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace lamina::cuda::emulation {

struct Ptx {
  int capability = 0;                             // 80 for sm_80
  std::map<std::string, std::size_t> parameters;  // bytes of parameters by kernel
};

// Reads the directives .version, .target and .entry. Returns false and the words of the driver's
// compiler in `log` if the text is not PTX.
bool read_ptx(std::string_view text, Ptx& ptx, std::string& log);

}  // namespace lamina::cuda::emulation
