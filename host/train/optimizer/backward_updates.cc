#include "train/optimizer/backward_updates.h"

#include <cmath>
#include <utility>

#include "core/error.h"
#include "train/optimizer/layer_gradients.h"

namespace lamina::train {

BackwardUpdates::BackwardUpdates(program::BoundProgram& program, TrainState& state,
                                 Optimizer& optimizer, double clip_norm)
    : program_(program), state_(state), optimizer_(optimizer), clip_norm_(clip_norm) {
  std::size_t found = 0;
  for (LayerGradient& gradient :
       layer_gradients(program.program().graph(), program.input_roles(), program.output_roles())) {
    if (!state.lists().is_shared(gradient.members.front())) continue;
    found += gradient.members.size();
    members_[gradient.scan].push_back(std::move(gradient.members));
  }
  LAMINA_ASSERT(found == state.lists().num_shared());
}

void BackwardUpdates::begin(double lr, std::int64_t update) {
  lr_ = lr;
  update_ = update;
  num_updated_ = 0;
  bad_.reset();
  program_.program().watch(this);
}

void BackwardUpdates::end() { program_.program().watch(nullptr); }

void BackwardUpdates::enter(const Graph& graph, NodeId scan, std::int64_t element) {
  rounds_.push_back({&graph == &program_.program().graph(), scan, element});
}

void BackwardUpdates::leave() {
  const Round round = rounds_.back();
  rounds_.pop_back();
  if (!round.of_layers || bad_) return;
  const auto gradients = members_.find(round.scan);
  if (gradients == members_.end()) return;
  for (const std::vector<int>& members : gradients->second)
    update(members[static_cast<std::size_t>(round.element)]);
}

void BackwardUpdates::update(int parameter) {
  if (bad_) return;
  const double norm = optimizer_.measure(state_, parameter);
  if (!std::isfinite(norm)) {
    bad_ = optimizer_.gradients().first_non_finite(state_, parameter);
    return;
  }
  optimizer_.update(state_, parameter, lr_, clip_scale(norm, clip_norm_), update_);
  ++num_updated_;
}

}  // namespace lamina::train
