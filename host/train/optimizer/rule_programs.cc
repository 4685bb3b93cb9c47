#include "train/optimizer/rule_programs.h"

#include "graph/interleave.h"
#include "program/compile.h"

namespace lamina::train {

const Graph& RulePrograms::optimized(const UpdateKind& kind) {
  const auto found = graphs_.find(kind);
  if (found != graphs_.end()) return found->second;
  return graphs_.emplace(kind, program::optimized(update_graph(kind, config_), backend_))
      .first->second;
}

Program& RulePrograms::get(const std::vector<UpdateKind>& kinds) {
  std::unique_ptr<Program>& program = programs_[kinds];
  if (!program) {
    std::vector<const Graph*> graphs;
    for (const UpdateKind& kind : kinds) graphs.push_back(&optimized(kind));
    program = std::make_unique<Program>(interleaved(graphs), backend_);
  }
  return *program;
}

}  // namespace lamina::train
