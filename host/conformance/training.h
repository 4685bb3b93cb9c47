// What must not change a training step: how layers are run, what is kept for the backward pass, how
// rows are cut into microbatches or shared by documents, how many threads there are.
#pragma once

#include "conformance/model_case.h"

namespace lamina::conformance {

// Each throws a Failure where it is not so, a Skipped where the model has no such equality.
void check_scanned_step_is_unrolled(const ModelCase& c);
void check_remat_policies_give_the_same_bits(const ModelCase& c);
// Tags of one's own keep what they say, and no more.
void check_own_remat_tags(const ModelCase& c);
void check_microbatches_are_one_batch(const ModelCase& c);
void check_packed_documents_have_the_gradients_of_each(const ModelCase& c);
void check_threads_give_the_same_step(const ModelCase& c);
void check_nothing_is_learnt_without_labels(const ModelCase& c);
// Every parameter that is trained has a gradient somewhere in some rows.
void check_every_parameter_learns(const ModelCase& c);

}  // namespace lamina::conformance
