// Products with a matrix that is stored in blocks along n, as in the gradient to the input of a
// linear: dx[m, I] = dy[m, O] w[O, I].
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/gemm/gemm.h"

namespace lamina::cpu {

// Makes the product of a spec with b_stored and without b_transposed, whose defaults are filled in.
// Some columns of B at a time are widened in all their rows, and multiplied as a plain matrix: with
// the same bits as if the whole B were widened. Returns nullptr, with the reason in *why,
// if no kernel accepts the plain product.
std::unique_ptr<Gemm> make_stored_columns_gemm(const GemmSpec& spec, std::string* why);

}  // namespace lamina::cpu
