// Compares decoding with the forward pass of training: the logits are equal for any split into
// calls.
#pragma once

#include "conformance/subjects/model_case.h"

namespace lamina::conformance {

// Each throws Failure if the property does not hold.
void check_prefill_in_pieces(const ModelCase& c);
void check_token_by_token(const ModelCase& c);
void check_prompt_tokens_and_prompt(const ModelCase& c);
void check_reset_is_as_new(const ModelCase& c);
void check_ragged_batch_is_alone(const ModelCase& c);
void check_threads_decode_the_same(const ModelCase& c);

}  // namespace lamina::conformance
