// The inputs that a golden case gives a model, checked before the computation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decoder/model.h"
#include "inspect/verify/case.h"
#include "program/rows.h"

namespace lamina::inspect {

// Throws UserError (exit 4) that names the file and the tensor: token ids outside the vocabulary
// (the first one and its position), related tensors with different shapes, rows without tokens,
// missing numbers.
void check_inputs(const GoldenCase& c, const decoder::Model& model);

// Reads "<prefix>input_ids" of a case and the related tensors.
program::Rows read_rows(const GoldenCase& c, const std::string& prefix);

struct GreedyText {
  std::vector<std::int32_t> prompt, continuation;
};
// Reads "<prefix>greedy_ids". Without a tensor for the prompt, it is the beginning of these ids,
// with the length in golden.json.
GreedyText read_greedy(const GoldenCase& c, const std::string& prefix);

}  // namespace lamina::inspect
