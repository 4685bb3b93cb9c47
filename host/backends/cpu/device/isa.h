// Which instruction set the CPU kernels use: detected once, capped by LAMINA_CPU_ISA.
//
// A kernel that has versions picks one when its plan is made:
//
//   switch (best_isa()) {
//     case Isa::avx512_bf16: case Isa::avx512: return add_avx512;
//     case Isa::avx2: return add_avx2;
//     case Isa::portable: return add_portable;
//   }
//
// Versions live in files of their own, *_avx512.cc, *_avx2.cc and *_portable.cc, and only those are
// compiled for more than the baseline. An inline function or template of a shared header that such
// a file instantiates may be the copy the linker keeps for the whole program, so what they include
// beyond intrinsics must have internal linkage (an unnamed namespace) or be always inlined.
#pragma once

#include <string_view>

namespace lamina::cpu {

// In rising order; each includes the ones before.
//   avx2: AVX2, FMA, F16C.  avx512: F, BW, VL, DQ, VNNI.  avx512_bf16: and vdpbf16ps.
enum class Isa { portable, avx2, avx512, avx512_bf16 };

// The best set that this machine has and LAMINA_CPU_ISA (portable, avx2, avx512, avx512_bf16) does
// not exclude. UserError (usage) for another value of the variable. [any thread]
Isa best_isa();

// The name as LAMINA_CPU_ISA spells it.
std::string_view name(Isa isa);

// For tests: best_isa() answers at most `isa` while the object lives (never more than the machine
// has). Plans made before keep their kernels. [one thread, no nesting]
class ScopedIsa {
 public:
  explicit ScopedIsa(Isa isa);
  ~ScopedIsa();
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;
};

}  // namespace lamina::cpu
