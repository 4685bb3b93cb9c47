// What a golden case gives a model to compute from, checked before anything is computed.
#pragma once

#include "decoder/model.h"
#include "inspect/verify/case.h"
#include "program/rows.h"

namespace lamina::inspect {

// Throws UserError (exit 4) that names the file and the tensor: token ids outside the vocabulary
// (the first one and its place), tensors that belong together and have different shapes, rows
// without tokens, numbers that are absent.
void check_inputs(const GoldenCase& c, const decoder::Model& model);

// "<prefix>input_ids" of a case and what goes with them.
program::Rows read_rows(const GoldenCase& c, const std::string& prefix);

}  // namespace lamina::inspect
