// Writes a model with quantised weights as a directory.
#pragma once

#include <string>

#include "model/export.h"
#include "weights/quantise/rules.h"

namespace lamina::model {

// Quantises the weights of a checkpoint, a run or a directory `path` and writes them to the new
// directory `to` in the layout of compressed-tensors, with the configuration, tokenizer and other
// files of an export. Uses `options.workers` and `options.progress`. The directory appears complete
// or not at all. Decoding from it equals decoding from `path` with weights::quantise().
// Errors: as export_model() and weights::quantise(); exit 2 for weights that are compressed
// already, for a tensor that the layout cannot express, and for a family that exports as another.
ExportedModel quantise_to_hf(const std::string& path, const std::string& to,
                             const weights::Quantisation& what, weights::ExportOptions options,
                             const registry::Catalog& plugins);

}  // namespace lamina::model
