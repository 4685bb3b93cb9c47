// Products by the matrix unit in plain C++.
#include "backends/cpu/gemm/tiles.h"

#include "backends/cpu/gemm/matrix_unit_product_simd.h"
#include "backends/cpu/gemm/matrix_unit_rows_simd.h"
#include "backends/cpu/gemm/matrix_units.h"

namespace lamina::cpu {

constinit const PlainUnitFunctions PlainUnitFunctions::LAMINA_ISA = {
    {unit_tile_product<PlainTiles>("tiles emulated"),
     unit_rows_function<PlainTiles>("rows emulated")}};

}  // namespace lamina::cpu
