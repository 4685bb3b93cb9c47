// The checkpoint of a run with the lowest validation loss, according to the manifests.
#pragma once

#include <optional>
#include <string>

namespace lamina::train {

// Key of a manifest's info: the validation loss after the checkpoint's step, if it was validated.
inline constexpr const char* kValidationLossKey = "validation_loss";

struct BestCheckpoint {
  std::string path;
  double loss = 0;
};

// Returns the best whole checkpoint of `run`, the older one of two equal ones; nothing if none was
// validated. Skips checkpoints whose manifest cannot be read.
std::optional<BestCheckpoint> best_checkpoint(const std::string& run);

// Returns the checkpoint that "RUN/checkpoints/best" refers to, and any other path unchanged.
// Throws UserError (exit 4) if no checkpoint of that run was validated.
std::string resolve_best(const std::string& path);

}  // namespace lamina::train
