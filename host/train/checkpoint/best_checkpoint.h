// The checkpoint of a run with the lowest validation loss, by what its manifests say.
#pragma once

#include <optional>
#include <string>

namespace lamina::train {

// Of a manifest's info: the validation loss after the checkpoint's step, where that was validated.
inline constexpr const char* kValidationLossKey = "validation_loss";

struct BestCheckpoint {
  std::string path;
  double loss = 0;
};

// Among the whole checkpoints of `run`, the older one of two that are equal; nothing where none was
// validated. One whose manifest cannot be read does not count.
std::optional<BestCheckpoint> best_checkpoint(const std::string& run);

// "RUN/checkpoints/best" as the path of the checkpoint that it stands for; any other path as it is.
// UserError, exit 4, where no checkpoint there was validated.
std::string resolve_best(const std::string& path);

}  // namespace lamina::train
