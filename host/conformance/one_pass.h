// What must not change what one pass over rows gives: how layers are run, what shares the rows, how
// many threads there are, the type that it computes in, and the weights' way through files.
#pragma once

#include "conformance/model_case.h"

namespace lamina::conformance {

// Each throws a Failure where it is not so.
void check_scanned_pass_is_unrolled(const ModelCase& c);
// Skipped where rotations depend on the length of a row.
void check_packed_documents_are_alone(const ModelCase& c);
void check_rows_of_a_batch_are_alone(const ModelCase& c);
void check_threads_give_the_same_pass(const ModelCase& c);
void check_the_same_pass_twice(const ModelCase& c);
// As near as weights that differ by a rounding of bfloat16 let it be.
void check_bfloat16_is_near(const ModelCase& c);
// Also with a token table ten times as large.
void check_finite(const ModelCase& c);
// Writes the weights under published names and under ours, and reads them back.
void check_weights_survive_an_export(const ModelCase& c);

}  // namespace lamina::conformance
