// Changes that must not affect a training step: scanned or unrolled layers, the values kept for the
// backward pass, the split of rows into microbatches and documents, the number of threads.
#pragma once

#include "conformance/subjects/model_case.h"

namespace lamina::conformance {

// Each throws Failure if the property does not hold, Skipped if the model has no such equality.
void check_scanned_step_is_unrolled(const ModelCase& c);
void check_remat_policies_give_the_same_bits(const ModelCase& c);
// Custom tags keep their values, and no others.
void check_own_remat_tags(const ModelCase& c);
void check_microbatches_are_one_batch(const ModelCase& c);
void check_packed_documents_have_the_gradients_of_each(const ModelCase& c);
void check_threads_give_the_same_step(const ModelCase& c);
void check_nothing_is_learnt_without_labels(const ModelCase& c);

}  // namespace lamina::conformance
