// Golden cases of MaxText: whole models under its names and layouts, stacked over the layers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/backend.h"

namespace lamina::testing {

// Returns the cases with whole models; others are for modules, optimizers and training steps.
std::vector<std::filesystem::path> maxtext_models();

// Returns the reason that the case cannot be computed with the built plugins; empty if it can.
std::string reason_to_skip_maxtext(const std::filesystem::path& directory);

struct MaxTextRow {
  std::string quantity;  // "logits", "grad.decoder/decoder_norm/scale"
  double error = 0;      // largest absolute difference
  double allowed = 0;
  std::vector<float> ours;
};

// Recomputes loss, logits, hidden states, every gradient and the layers' reports, in f32. The
// tolerance is the one in the cases' README or, in models that magnify rounding, eight times the
// change for weights that differ by a rounding (relative 1e-7). REQUIRES: no reason to skip the
// case.
std::vector<MaxTextRow> compare_maxtext(const std::filesystem::path& directory, bool scan_layers,
                                        const Backend& backend);

}  // namespace lamina::testing
