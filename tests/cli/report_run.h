// Run directories for tests of `lamina report`.
#pragma once

#include <fmt/format.h>

#include <string>

#include "support/temp_dir.h"

namespace lamina::cli {

// A run directory of metrics alone, with these lines.
inline std::string run_of(const lamina::testing::TempDir& folder, const std::string& name,
                          const std::string& lines) {
  folder.write(name + "/metrics.jsonl", lines);
  return folder / name;
}

inline std::string loss_line(int step, double loss) {
  return fmt::format("{{\"step\":{},\"train/loss\":{:.9g}}}\n", step, loss);
}

}  // namespace lamina::cli
