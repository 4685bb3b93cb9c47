// Writes a model with quantised weights as a directory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "model/export.h"
#include "runtime/backend.h"
#include "weights/quantise/rules.h"

namespace lamina::model {

// The work of a method: `reading` a text with the plain model, then `rounding` (a large model does
// both for some of its layers at a time), and `measuring` matrices for a number of bits, if the
// text does not.
enum class QuantiseStage { reading, rounding, measuring };

// How formats and numbers are chosen; default: each row to nearest.
struct QuantiseMethod {
  // A text file (or token ids, for a model without a tokenizer): 4-bit formats of integers and
  // MXFP4 are rounded with error feedback for the inputs that this text gives; see
  // weights/quantise/error_feedback.h.
  std::string calibrate = {};
  std::int64_t calibrate_tokens = 16384;  // at most, in rows spread over the text
  // Most bits per value of all quantised matrices; some get weights::kBudgetFormat for it.
  std::optional<double> target_bits = {};
  const Backend* backend = nullptr;  // computes the inputs; required by `calibrate`
  // Called with the rows of the text that are computed, with the inputs whose matrices are rounded,
  // and with the matrices that are measured; may throw to stop.
  std::function<void(QuantiseStage stage, std::int64_t done, std::int64_t total)> progress = {};
};

// A model that was written.
struct QuantisedModel {
  std::string directory;  // the directory of the weights that were read
  weights::Exported written;
  double bits_per_value = 0;  // of all quantised matrices
  // Each format with the number of matrices that have it, by name.
  std::map<std::string, std::int64_t> num_matrices;
};

// Quantises the weights of a checkpoint, a run or a directory `path` and writes them to the new
// directory `to` in the layout of compressed-tensors, with the configuration, tokenizer and other
// files of an export. Uses `options.workers` and `options.progress`. The directory appears complete
// or not at all. With the default method decoding from it equals decoding from `path` with
// weights::quantise().
// Errors: as export_model() and weights::quantise(); exit 2 for weights that are compressed
// already, for a tensor that the layout cannot express, and for a family that exports as another;
// exit 2 for a text or a number of bits that the formats cannot use, exit 5 for a text that cannot
// be read, exit 4 if the inputs that it gives are not finite.
QuantisedModel quantise_to_hf(const std::string& path, const std::string& to,
                              const weights::Quantisation& what, weights::ExportOptions options,
                              const registry::Catalog& plugins, const QuantiseMethod& method = {});

}  // namespace lamina::model
