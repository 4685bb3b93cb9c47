// lamina train --profile: times some steps kernel by kernel.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "inspect/profile/profile.h"
#include "train/loop/loop.h"

namespace lamina::cli {

// First and last step of "steps=10:12". Throws UserError (exit 2) for other text.
std::pair<std::int64_t, std::int64_t> parse_profiled_steps(const std::string& text);

// Refuses steps if a run from step `done` + 1 to step `last` has none among them (exit 2).
void check_profiled_steps(std::pair<std::int64_t, std::int64_t> steps, std::int64_t done,
                          std::int64_t last);

// Each kernel with its calls, time, share of the total, and its rate (operations for products, else
// bytes) with the share of the machine's limit. Copies between host memory and the device run
// beside the kernels: they have no share of the total, and their limit is `copy_bandwidth`. "" for
// no kernels.
std::string kernel_table(const std::vector<inspect::KernelTime>& kernels, double read_bandwidth,
                         double peak_f32, double peak_bf16, double copy_bandwidth = 0);

// Adds itself to the events of a loop; after the last of the steps writes RUN/profile.json and logs
// the table. [one per loop; must not be moved]
class TrainingProfile {
 public:
  TrainingProfile(std::pair<std::int64_t, std::int64_t> steps, std::string run, train::Loop& loop,
                  const device::Device& device)
      : steps_(steps), run_(std::move(run)), loop_(loop), device_(device) {}

  void begin_step(std::int64_t step);
  void end_step(std::int64_t step);
  // Also if the run ended before the last of the steps.
  void finish();

 private:
  double now() const;
  std::pair<std::int64_t, std::int64_t> steps_;
  std::string run_;
  train::Loop& loop_;
  const device::Device& device_;
  Trace trace_;
  std::vector<inspect::Phase> phases_;
  bool is_done_ = false;
};

}  // namespace lamina::cli
