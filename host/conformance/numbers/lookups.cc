#include "conformance/numbers/lookups.h"

#include <algorithm>
#include <cstdint>

#include "conformance/check.h"
#include "conformance/subjects/rows.h"
#include "program/bound_program.h"
#include "program/records.h"
#include "runtime/host_access.h"

namespace lamina::conformance {
namespace {

// One row from position 0 on, and one up to the last position of the model, with the first and the
// last token of the vocabulary.
program::Rows rows_at_both_ends(const decoder::Model& model) {
  constexpr std::int64_t kMostPositions = 1 << 20;
  const std::int64_t tokens = row_tokens(model);
  const std::int64_t most = std::min(model.max_length().value_or(tokens), kMostPositions);
  program::Rows rows = random_rows(model, 2, tokens);
  for (std::size_t i = rows.positions.size() / 2; i < rows.positions.size(); ++i)
    rows.positions[i] += static_cast<std::int32_t>(most - tokens);
  rows.ids.front() = 0;
  rows.ids.back() = static_cast<std::int32_t>(model.vocab_size() - 1);
  return rows;
}

// Throws Failure for a lookup past the last row of a table.
class LookupWatcher final : public Watcher {
 public:
  LookupWatcher(Queue& queue, const program::Rows& rows)
      : queue_(queue),
        last_id_(std::ranges::max(rows.ids)),
        last_position_(std::ranges::max(rows.positions)) {}

  void enter(const Graph&, NodeId, std::int64_t) override {}
  void leave() override {}
  void ran(const Graph&, NodeId, std::span<const TensorRef>) override {}
  void starts(const Graph& graph, NodeId id, std::span<const ConstTensorRef> operands) override {
    const Node& node = graph.node(id);
    const bool of_plugin = node.origin && !node.origin->file.empty();
    if (!of_plugin || node.op->def->facts.params[0].use != ParamUse::table) return;
    const std::int64_t num_rows = operands[0].type().dim(0);
    read_tensor<std::int32_t>(queue_, operands[1], [&](std::span<const std::int32_t> ids) {
      for (const std::int32_t row : ids)
        if (row >= num_rows)
          fail(
              "{} ({}) looks up row {} of a table with {} rows, for tokens up to {} at positions "
              "up to {}; the result is zeros",
              node.op->name, to_string(*node.origin), row, num_rows, last_id_, last_position_);
    });
  }

 private:
  Queue& queue_;
  std::int32_t last_id_, last_position_;
};

}  // namespace

void check_lookups_are_in_the_table(const ModelCase& c) {
  const decoder::Model model = c.open(true);
  const program::Rows rows = rows_at_both_ends(model);
  const weights::Weights weights = c.load(model, DType::f32);
  program::BoundProgram program(model.forward_graph({rows.batch, rows.tokens, DType::f32}),
                                c.backend());
  program.bind_parameters(weights.pointers());
  rows.microbatch().bind(program);
  std::vector<float> logits(rows.ids.size() * static_cast<std::size_t>(model.vocab_size()));
  program.bind(decoder::Output::logits, logits.data());
  LookupWatcher watcher(c.backend().context().queue(), rows);
  const Watching watching(program.program(), watcher);
  program::run(program, c.backend());
}

}  // namespace lamina::conformance
