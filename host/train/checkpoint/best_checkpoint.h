// The checkpoint of a run with the lowest validation loss, according to the manifests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lamina::train {

// Keys of a manifest's info: the validation loss after the checkpoint's step, if it was validated,
// and the number of rows that it is the mean of.
inline constexpr const char* kValidationLossKey = "validation_loss";
inline constexpr const char* kValidationRowsKey = "validation_rows";

struct BestCheckpoint {
  std::string path;
  double loss = 0;
};

// A checkpoint that may be the best one.
struct UnreadCheckpoint {
  std::string path;
  std::string problem;
};

// Returns the best whole checkpoint of `run` among those that were validated on `num_rows` rows
// (default: as many as the newest one that was validated), because losses of other rows cannot be
// compared; the older one of two equal ones; nothing if there is none. Skips damaged checkpoints.
// Those with a manifest that cannot be read are skipped, too, and appended to `unread`; if that is
// null, throws UserError (exit 4).
std::optional<BestCheckpoint> best_checkpoint(const std::string& run,
                                              std::optional<std::uint64_t> num_rows = {},
                                              std::vector<UnreadCheckpoint>* unread = nullptr);

// Returns the checkpoint that "RUN/checkpoints/best" refers to, and any other path unchanged.
// Throws UserError (exit 4) if no checkpoint of that run was validated.
std::string resolve_best(const std::string& path);

}  // namespace lamina::train
