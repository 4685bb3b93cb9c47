#include "backends/cuda/emulation/ptx.h"

#include <algorithm>
#include <regex>

#include "core/round_up.h"

namespace lamina::cuda::emulation {
namespace {

std::size_t number(const std::ssub_match& text) { return std::stoul(text.str()); }

// Returns the places of a list of parameters, each at the next multiple of its alignment:
//   .param .align 8 .b8 name[40], .param .u64 name, ...
std::vector<PtxParameter> places_of(const std::string& list) {
  static const std::regex parameter(
      R"(\.param\s+(?:\.align\s+(\d+)\s+)?\.[bsuf](\d+)\s+(?:\.ptr\S*\s+(?:\.\w+\s+)*(?:\.align\s+\d+\s+)?)?[\w$]+(?:\[(\d+)\])?)");
  std::vector<PtxParameter> out;
  std::size_t end_of_last = 0;
  for (std::sregex_iterator it(list.begin(), list.end(), parameter), end; it != end; ++it) {
    const std::size_t element = number((*it)[2]) / 8;
    const std::size_t alignment = std::max(element, (*it)[1].matched ? number((*it)[1]) : 1);
    const std::size_t offset = round_up(end_of_last, alignment);
    const std::size_t bytes = element * ((*it)[3].matched ? number((*it)[3]) : 1);
    out.push_back({offset, bytes});
    end_of_last = offset + bytes;
  }
  return out;
}

}  // namespace

bool read_ptx(std::string_view text, Ptx& ptx, std::string& log) {
  const std::string code(text.substr(0, text.find('\0')));
  static const std::regex version(R"((?:^|\n)\.version\s+\d+\.\d+)"),
      target(R"(\n\.target\s+sm_(\d+))"), entry(R"(\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?)");
  std::smatch match;
  if (!std::regex_search(code, version)) {
    log = "ptxas fatal   : Missing .version directive at start of file";
    return false;
  }
  if (!std::regex_search(code, match, target)) {
    log = "ptxas fatal   : Missing .target directive";
    return false;
  }
  ptx.capability = static_cast<int>(number(match[1]));
  for (std::sregex_iterator it(code.begin(), code.end(), entry), end; it != end; ++it)
    ptx.parameters[(*it)[1]] = places_of((*it)[2]);
  return true;
}

}  // namespace lamina::cuda::emulation
