// Products by Intel's AMX. Only for machines with it: see has_matrix_unit().
#include "backends/cpu/gemm/tiles.h"

#if defined(__x86_64__)
#include "backends/cpu/gemm/matrix_unit_product_simd.h"
#include "backends/cpu/gemm/matrix_unit_rows_simd.h"
#include "backends/cpu/gemm/matrix_units.h"
#endif

namespace lamina::cpu {

#if defined(__x86_64__)
constinit const AmxFunctions AmxFunctions::LAMINA_ISA = {
    {unit_tile_product<AmxTiles>("tiles amx"), unit_rows_function<AmxTiles>("rows amx")}};
#else
constinit const AmxFunctions AmxFunctions::LAMINA_ISA = {};
#endif

}  // namespace lamina::cpu
