// Changes that must not affect the result of one pass over rows: scanned or unrolled layers, other
// rows and documents, the number of threads, the compute type, and an export and import of the
// weights.
#pragma once

#include "conformance/subjects/model_case.h"

namespace lamina::conformance {

// Each throws Failure if the property does not hold.
void check_scanned_pass_is_unrolled(const ModelCase& c);
// Skipped if rotary positions depend on the length of a row.
void check_packed_documents_are_alone(const ModelCase& c);
void check_rows_of_a_batch_are_alone(const ModelCase& c);
void check_threads_give_the_same_pass(const ModelCase& c);
void check_the_same_pass_twice(const ModelCase& c);
// Allows the effect of rounding the weights to bfloat16.
void check_bfloat16_is_near(const ModelCase& c);
// With a token table ten times as large, in a long row.
void check_finite(const ModelCase& c);
// Writes the weights under published names and under ours, and reads them back.
void check_weights_survive_an_export(const ModelCase& c);

}  // namespace lamina::conformance
