// The instruction set of the CPU kernels: detected once, limited by LAMINA_CPU_ISA.
//
// Code for an instruction set is a table of functions with one member per set:
//
//   struct NormFunctions {                                            // norm.h
//     void (*rms_forward)(const RmsNormForward& p, ...);
//     static const NormFunctions avx512, avx2, portable;
//   };
//   constinit const NormFunctions NormFunctions::LAMINA_ISA = {...};  // norm_simd.cc
//   isa_table<NormFunctions>().rms_forward(p, ...);                   // ops.cc
//
// The build compiles every *_simd.cc three times, with LAMINA_ISA as the name of the member and the
// flags of the set; all other files are compiled for the baseline. The linker may keep the copy of
// an inline function or template of a shared header from such a file for the whole program. So the
// headers that they include, except intrinsics, must have internal linkage (an unnamed namespace)
// or be always inlined.
#pragma once

#include <string_view>

namespace lamina::cpu {

// In rising order; each includes the ones before.
//   avx2: AVX2, FMA, F16C.  avx512: F, BW, VL, DQ, VNNI.  avx512_bf16: and vdpbf16ps.
enum class Isa { portable, avx2, avx512, avx512_bf16 };

// The best set that this machine has and LAMINA_CPU_ISA (portable, avx2, avx512, avx512_bf16) does
// not exclude. UserError (usage) for another value of the variable. [any thread]
Isa best_isa();

// True if products of tiles can use the matrix unit (AMX with bf16 and int8): the machine has it,
// the system lets this process use it, and best_isa() is avx512_bf16. [any thread]
bool has_matrix_unit();

// True if products of bytes can use AVX-VNNI: the machine has it and best_isa() is avx2.
// [any thread]
bool has_avx_vnni();

// True if kernels can look up bytes in tables of 128 (AVX-512 VBMI): the machine has it and
// best_isa() is avx512_bf16. [any thread]
bool has_byte_tables();

// The name as LAMINA_CPU_ISA spells it.
std::string_view name(Isa isa);

// Returns the functions of best_isa(). Functions of only avx512_bf16 are additional members of
// avx512's table. A table whose functions differ with has_avx_vnni() has a member avx2_vnni.
template <typename Table>
const Table& isa_table() {
  switch (best_isa()) {
    case Isa::avx512_bf16:
    case Isa::avx512:
      return Table::avx512;
    case Isa::avx2:
      if constexpr (requires { Table::avx2_vnni; })
        if (has_avx_vnni()) return Table::avx2_vnni;
      return Table::avx2;
    case Isa::portable:
      break;
  }
  return Table::portable;
}

// For tests: best_isa() returns at most `isa` during the life of the object (never more than the
// machine has). Earlier plans keep their kernels. [one thread, no nesting]
class ScopedIsa {
 public:
  explicit ScopedIsa(Isa isa);
  ~ScopedIsa();
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;
};

}  // namespace lamina::cpu
