// The output of lamina train --dry-run.
#pragma once

#include <cstdint>
#include <string>

#include "config/run_config.h"
#include "data/estimate.h"
#include "decoder/model.h"
#include "inspect/plan/train_plan.h"

namespace lamina::cli {

// The needs of a run, and the resources available for it.
struct DryRun {
  inspect::TrainPlan plan;
  data::DataEstimate data;
  std::uint64_t program_bytes = 0;  // this process now: what a run needs besides its tensors
  std::uint64_t available_bytes = 0;
  std::uint64_t available_host_bytes = 0;
  std::size_t num_devices = 1;  // each pins the offloaded parts

  std::uint64_t host_bytes() const { return plan.host_bytes() * num_devices; }

  std::uint64_t memory_bytes() const {
    return plan.memory_bytes() + data.held_bytes + program_bytes;
  }
};

// Logs a warning if the disk has too little space for the checkpoints that the run will add.
void warn_of_disk(const decoder::Model& model, const config::RunConfig& run);

// As text with bars, and as one JSON object with all sizes in bytes.
std::string dry_run_text(const DryRun& found, const decoder::Model& model,
                         const config::RunConfig& run);
std::string dry_run_json(const DryRun& found);

}  // namespace lamina::cli
