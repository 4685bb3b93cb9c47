// The arithmetic of Intel's AMX, one number at a time, for tests: Intel's manual, volume 2,
// TDPBF16PS and TDPBSSD/TDPBSUD/TDPBUSD/TDPBUUD. Shares no code with the units of the program.
#pragma once

#include <cstdint>

namespace lamina::testing {

// A tile register. Rows and bytes outside its shape are 0.
struct AmxTile {
  std::uint8_t rows = 0;
  std::uint16_t row_bytes = 0;
  std::uint8_t bytes[16][64] = {};
};

// Returns a * b + c, rounded once to nearest even. Numbers below 2^-126 are 0, as operands and as
// results; a result is that small if it is after rounding to 24 bits.
float amx_multiply_add(float a, float b, float c);

// c += a b. Expects shapes that match: see amx_shapes_problem().
void amx_multiply_bf16(AmxTile& c, const AmxTile& a, const AmxTile& b);
void amx_multiply_int8(AmxTile& c, const AmxTile& a, const AmxTile& b, bool signed_a,
                       bool signed_b);

// Returns the reason for which a product of tiles of these shapes faults (#UD), null if there is
// none.
const char* amx_shapes_problem(const AmxTile& c, const AmxTile& a, const AmxTile& b);

}  // namespace lamina::testing
