#include "backends/cpu/gemm/matrix_unit.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "backends/cpu/gemm/onednn.h"
#include "backends/cpu/threads/isa.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"none", "amx", "emulated", "onednn"};
constexpr int kUnforced = static_cast<int>(kNames.size());

std::atomic<int> forced{kUnforced};

MatrixUnit chosen() {
  const char* value = std::getenv("LAMINA_CPU_TILES");
  if (value == nullptr || *value == '\0')
    return has_matrix_unit() ? MatrixUnit::amx : MatrixUnit::none;
  const auto* found = std::find(kNames.begin(), kNames.end(), std::string_view(value));
  if (found == kNames.end())
    throw UserError(ExitCode::usage, {"LAMINA_CPU_TILES",
                                      fmt::format("unknown matrix unit '{}'", value),
                                      {"use none, amx, emulated or onednn, or unset it"}});
  const auto unit = static_cast<MatrixUnit>(found - kNames.begin());
  if (unit == MatrixUnit::amx && !has_matrix_unit())
    throw UserError(ExitCode::usage,
                    {"LAMINA_CPU_TILES",
                     "is 'amx', but this machine has no AMX with bf16 and int8 that this process "
                     "may use",
                     {"use none, emulated or onednn, or unset it"}});
  if (unit == MatrixUnit::onednn)
    if (const std::string& problem = open_onednn(); !problem.empty())
      throw UserError(ExitCode::usage, {"LAMINA_CPU_TILES",
                                        fmt::format("is 'onednn', but {}", problem),
                                        {"install oneDNN, or unset the variable"}});
  return unit;
}

}  // namespace

MatrixUnit matrix_unit() {
  if (const int unit = forced.load(std::memory_order_relaxed); unit != kUnforced)
    return static_cast<MatrixUnit>(unit);
  static const MatrixUnit unit = chosen();
  // The instruction set may be limited after the choice (ScopedIsa).
  return unit == MatrixUnit::amx && !has_matrix_unit() ? MatrixUnit::none : unit;
}

ScopedMatrixUnit::ScopedMatrixUnit(MatrixUnit unit) { forced.store(static_cast<int>(unit)); }
ScopedMatrixUnit::~ScopedMatrixUnit() { forced.store(kUnforced); }

}  // namespace lamina::cpu
