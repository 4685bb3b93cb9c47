// Detects the instruction sets of this machine and applies LAMINA_CPU_ISA.
#include "backends/cpu/threads/isa.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "core/error.h"

namespace lamina::cpu {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"portable", "avx2", "avx512", "avx512_bf16"};
constexpr int kUnforced = static_cast<int>(kNames.size());

std::atomic<int> forced{kUnforced};

#if defined(__x86_64__)
// clang 16 does not know this feature in __builtin_cpu_supports.
bool has_f16c() {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

// __builtin_cpu_supports also checks that the operating system saves the wide registers.
Isa detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
    return Isa::portable;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vnni"))
    return Isa::avx2;
#if !defined(LAMINA_WITHOUT_AVX512_BF16)
  if (__builtin_cpu_supports("avx512bf16")) return Isa::avx512_bf16;
#endif
  return Isa::avx512;
#else
  return Isa::portable;
#endif
}

Isa allowed_by_environment() {
  const char* value = std::getenv("LAMINA_CPU_ISA");
  if (value == nullptr || *value == '\0') return Isa::avx512_bf16;
  const auto* found = std::find(kNames.begin(), kNames.end(), std::string_view(value));
  if (found == kNames.end())
    throw UserError(ExitCode::usage, {"LAMINA_CPU_ISA",
                                      fmt::format("unknown instruction set '{}'", value),
                                      {"use portable, avx2, avx512 or avx512_bf16, or unset it"}});
  return static_cast<Isa>(found - kNames.begin());
}

// Returns whether a register (0: EAX, 1: EBX, 2: ECX, 3: EDX) of CPUID leaf 7 has all of these
// bits. Intel's manual, volume 2A.
bool has_features(unsigned subleaf, int index, unsigned bits) {
#if defined(__x86_64__)
  unsigned registers[4];
  return __get_cpuid_count(7, subleaf, &registers[0], &registers[1], &registers[2],
                           &registers[3]) != 0 &&
         (registers[index] & bits) == bits;
#else
  static_cast<void>(subleaf), static_cast<void>(index), static_cast<void>(bits);
  return false;
#endif
}

// EDX bits 22 (bf16), 24 (tiles) and 25 (int8). Linux keeps the state of tiles only for processes
// that ask for it (Documentation/arch/x86/xstate.rst).
bool detect_matrix_unit() {
#if defined(__x86_64__)
  if (!has_features(0, 3, 1u << 22 | 1u << 24 | 1u << 25)) return false;
  unsigned a, b, c, d;
  // Some virtual machines report AMX without any palette of tiles, and do not run its instructions.
  if (__get_cpuid_count(0x1d, 0, &a, &b, &c, &d) == 0 || a == 0) return false;
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

bool detect_avx_vnni() { return has_features(1, 0, 1u << 4); }
bool detect_byte_tables() { return has_features(0, 2, 1u << 1); }

}  // namespace

Isa best_isa() {
  static const Isa best = std::min(detect(), allowed_by_environment());
  return static_cast<Isa>(std::min(static_cast<int>(best), forced.load(std::memory_order_relaxed)));
}

bool has_matrix_unit() {
  static const bool has = detect_matrix_unit();
  return has && best_isa() == Isa::avx512_bf16;
}

bool has_avx_vnni() {
  static const bool has = detect_avx_vnni();
  return has && best_isa() == Isa::avx2;
}

bool has_byte_tables() {
  static const bool has = detect_byte_tables();
  return has && best_isa() == Isa::avx512_bf16;
}

std::string_view name(Isa isa) { return kNames[static_cast<std::size_t>(isa)]; }

ScopedIsa::ScopedIsa(Isa isa) { forced.store(static_cast<int>(isa)); }
ScopedIsa::~ScopedIsa() { forced.store(kUnforced); }

}  // namespace lamina::cpu
