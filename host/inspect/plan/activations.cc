// Memory and recomputation of each rematerialisation policy, from compiled training graphs.
#include <algorithm>
#include <set>

#include "autodiff/tags.h"
#include "inspect/cost/required_work.h"
#include "inspect/plan/model_plan.h"
#include "inspect/plan/transfers.h"
#include "passes/pipeline.h"
#include "program/bound_program.h"
#include "train/optimizer/gradient_sums.h"
#include "train/optimizer/gradients.h"
#include "train/optimizer/row_gradients.h"

namespace lamina::inspect {
namespace {

// Inputs with the gradient of the loss: the forward pass does not depend on them.
std::vector<bool> seeds_of(const decoder::ModelGraph& graph) {
  std::vector<bool> out;
  for (const decoder::InputRole& input : graph.inputs)
    out.push_back(input.role == decoder::Input::loss_scales);
  return out;
}

// The first node that combines a seed's dependents with other values; -1 if there is none.
int first_of_backward(const Graph& graph, const std::vector<bool>& seeds) {
  std::vector<bool> depends(graph.values().size());
  for (std::size_t i = 0; i < seeds.size(); ++i) depends[graph.inputs()[i].value] = seeds[i];
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    std::size_t count = 0, others = 0;
    for (ValueId v : node.inputs)
      if (v != kNoValue) ++(depends[v] ? count : others);
    if (count > 0 && others > 0) return static_cast<int>(n);
    for (ValueId v : node.outputs) depends[v] = count > 0;
  }
  return -1;
}

// Bytes of values that are live when the backward pass begins.
std::int64_t kept_bytes(const Program& program, const std::vector<bool>& seeds) {
  const int backward = first_of_backward(program.graph(), seeds);
  std::int64_t bytes = 0;
  for (const ArenaBlock& block : program.arena_blocks())
    if (block.first < backward && block.last > backward)
      bytes += static_cast<std::int64_t>(block.bytes);
  return bytes;
}

}  // namespace

std::vector<RematCost> plan_activations(const decoder::Model& model, const PlanOptions& options,
                                        const Backend& backend) {
  decoder::ModelGraph loss = options.task->loss_graph(
      model, {options.batch, options.tokens, options.dtype}, options.features());
  loss.graph = passes::simplify(std::move(loss.graph));
  const std::set<std::string> tags = autodiff::tags_in(loss.graph);

  struct Measured {
    // The model's tags, and all values without a tag; then those in host memory, if it is separate.
    std::vector<bool> kept;
    RematCost cost;
    double flops = 0;
  };
  std::vector<Measured> all;
  for (train::RematPolicy policy : train::remat_policies()) {
    bool chosen = options.remat && options.remat->name == policy.name;
    if (chosen) policy = *options.remat;  // with the run's tags
    if (policy.name == "custom" && !chosen) continue;
    autodiff::SavePolicy saves = policy.save_policy();
    std::vector<bool> kept{saves("")};
    for (const std::string& tag : tags) kept.push_back(saves(tag));
    if (!backend.reaches(MemoryKind::pinned)) {
      kept.push_back(saves.offloads_inputs());
      for (const std::string& tag : tags) kept.push_back(saves.offloads(tag));
    }
    auto known = std::ranges::find(all, kept, &Measured::kept);
    if (known == all.end()) {
      decoder::ModelGraph trained =
          train::list_table_gradients(train::add_gradients(loss, model.parameters(), saves));
      if (options.microbatches > 1) trained = train::carry_gradient_sums(std::move(trained));
      const std::vector<bool> seeds = seeds_of(trained);
      const std::size_t transfers = transfer_bytes(trained, backend);
      program::BoundProgram bound(std::move(trained), backend);
      const Program& program = bound.program();
      Measured fresh{std::move(kept), {}, required_flops(program.graph())};
      fresh.cost.arena_bytes = static_cast<std::int64_t>(program.arena_bytes());
      fresh.cost.kept_bytes = kept_bytes(program, seeds);
      fresh.cost.host_bytes = static_cast<std::int64_t>(program.host_bytes());
      fresh.cost.transfer_bytes = transfers;
      fresh.cost.copied_bytes = std::max(program.stored_bytes(), program.loaded_bytes());
      known = all.insert(all.end(), std::move(fresh));
    }
    known->cost.policies.push_back(policy.name);
    known->cost.chosen |= chosen;
  }

  // Tags may differ without any other difference: an unused kept value costs nothing.
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = all.size(); --j > i;) {
      if (all[j].flops != all[i].flops || all[j].cost.arena_bytes != all[i].cost.arena_bytes ||
          all[j].cost.kept_bytes != all[i].cost.kept_bytes ||
          all[j].cost.host_bytes != all[i].cost.host_bytes)
        continue;
      std::ranges::copy(all[j].cost.policies, std::back_inserter(all[i].cost.policies));
      all[i].cost.chosen |= all[j].cost.chosen;
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(j));
    }
  const double min_flops = std::ranges::min(all, {}, &Measured::flops).flops;
  std::ranges::stable_sort(all, std::greater{},
                           [](const Measured& m) { return m.cost.arena_bytes; });
  std::vector<RematCost> out;
  for (Measured& m : all) {
    m.cost.recomputed_flops_per_token =
        (m.flops - min_flops) / static_cast<double>(options.batch * options.tokens);
    out.push_back(std::move(m.cost));
  }
  return out;
}

}  // namespace lamina::inspect
