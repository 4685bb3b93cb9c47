// Programs that update tensors by the graphs of their rules (update_rules.h).
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "config/sections.h"
#include "runtime/program.h"
#include "train/optimizer/update_rules.h"

namespace lamina::train {

class RulePrograms {
 public:
  // REQUIRES: both outlive it.
  RulePrograms(const config::OptimizerSection& config, const Backend& backend)
      : config_(config), backend_(backend) {}

  // Returns the program of a group, with the inputs and outputs of update_graph() for each kind,
  // one after the other. Each graph is optimised alone, so an update has the same bits in every
  // group. Compiles the program at its first use.
  Program& get(const std::vector<UpdateKind>& kinds);

 private:
  const Graph& optimized(const UpdateKind& kind);

  const config::OptimizerSection& config_;
  const Backend& backend_;
  std::map<UpdateKind, Graph> graphs_;
  std::map<std::vector<UpdateKind>, std::unique_ptr<Program>> programs_;
};

}  // namespace lamina::train
