// Golden cases of MaxText: whole models under its names and layouts, stacked over the layers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lamina::testing {

// The whole models among the cases: others are of modules, optimizers and steps of training.
std::vector<std::filesystem::path> maxtext_models();

// Why the case cannot be computed with what is built; empty if it can.
std::string reason_to_skip_maxtext(const std::filesystem::path& directory);

struct MaxTextRow {
  std::string quantity;  // "logits", "grad.decoder/decoder_norm/scale"
  double error = 0;      // largest absolute difference
  double allowed = 0;
  std::vector<float> ours;
};

// Recomputes loss, logits, hidden states, every gradient and what layers report, f32. Allowed is
// what the cases' README suggests, or, in models that magnify rounding, eight times what weights
// that differ by a rounding (relative 1e-7) change. REQUIRES: no reason to skip it.
std::vector<MaxTextRow> compare_maxtext(const std::filesystem::path& directory, bool scan_layers);

}  // namespace lamina::testing
