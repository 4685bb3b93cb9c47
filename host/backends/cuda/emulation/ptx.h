// PTX of plugins, as the fake driver reads it: its target and its kernels.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::cuda::emulation {

struct PtxParameter {
  std::size_t offset, bytes;
};

// The end of the last parameter: a C struct with the same fields may have padding after it.
inline std::size_t params_bytes(const std::vector<PtxParameter>& of) {
  return of.empty() ? 0 : of.back().offset + of.back().bytes;
}

struct Ptx {
  int capability = 0;                                           // 80 for sm_80
  std::map<std::string, std::vector<PtxParameter>> parameters;  // by kernel
};

// Reads the directives .version, .target and .entry. Returns false if the text is not PTX,
// with the message of the driver's compiler in `log`.
bool read_ptx(std::string_view text, Ptx& ptx, std::string& log);

}  // namespace lamina::cuda::emulation
