#include "train/optimizer/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "core/error.h"
#include "ops/tensor.h"
#include "train/optimizer/backward_rounds.h"

namespace lamina::train {
namespace {

// update_scalars(); the fused kernels read the first five.
const Type kScalars{DType::f32, {6}, {}};

Graph average_graph(std::int64_t elements, double decay) {
  Graph graph;
  Tensor average = graph.add_input("average", {DType::f32, {elements}, {}});
  Tensor now = graph.add_input("now", {DType::f32, {elements}, {}});
  graph.add_output("average", average + ops::scale(now - average, 1 - decay), 0);
  return graph;
}

// Returns the bytes of state in host memory that one update of `count` of the parameter's elements
// reads and writes.
std::size_t update_bytes(const decoder::Parameter& p, const config::OptimizerSection& config,
                         std::int64_t count, bool copy) {
  std::size_t bytes = copy ? aligned(static_cast<std::size_t>(count) * sizeof(float)) : 0;
  for (const StateSpec& state : state_of(p, config)) {
    const std::int64_t n = state.type.num_elements(), all = p.num_elements();
    const std::int64_t of_update = n == all ? count : std::min(n, count);
    bytes += aligned(static_cast<std::size_t>(of_update * size_bytes(state.type.dtype)));
  }
  return bytes;
}

// Returns the sizes of the state that updates copy from host memory.
StateSizes state_sizes(const decoder::ParameterTable& parameters,
                       const config::OptimizerSection& config, const GradientLists& lists,
                       const std::vector<std::vector<FusedPart>>& fused,
                       const std::vector<std::vector<UpdatePiece>>& by_rule,
                       const std::function<bool(int)>& has_copy) {
  StateSizes out;
  const auto add = [&](const auto& groups) {
    for (const auto& group : groups) {
      std::size_t bytes = 0;
      for (const auto& part : group)
        bytes += update_bytes(parameters[part.parameter], config, part.num_elements(),
                              has_copy(part.parameter));
      out.add(bytes);
    }
  };
  add(fused);
  add(by_rule);
  // Averages of parameters that the backward pass updates.
  for (int i = 0; i < std::ssize(parameters.all()); ++i) {
    const decoder::Parameter& p = parameters[i];
    if (!p.learns() || !lists.is_shared(i)) continue;
    const std::int64_t n = p.num_elements();
    out.add(update_bytes(p, config, is_elementwise(rule_of(p, config)) ? std::min(n, kMaxPiece) : n,
                         has_copy(i)));
  }
  return out;
}

}  // namespace

double clip_scale(double norm, double limit) {
  return limit <= 0 ? 1.0 : std::min(1.0, limit / (norm + kClipMargin));
}

Optimizer::Optimizer(const decoder::ParameterTable& parameters,
                     const config::OptimizerSection& config, const Backend& backend)
    : parameters_(parameters),
      config_(for_backend(config, backend)),
      max_piece_(backend.reaches(MemoryKind::host) ? kMaxHostPiece : kMaxPiece),
      arena_(backend),
      buffers_(backend),
      gradients_(parameters, arena_),
      fused_(arena_,
             [this](const std::vector<FusedAdamw>& kinds) {
               return fused_adamw_graph(kinds, config_);
             }),
      updates_(config_, backend),
      averages_(arena_,
                [](const Average& kind) { return average_graph(kind.elements, kind.decay); }) {
  for (std::size_t i = 0; i < parameters.all().size(); ++i) scalars_.add_input(kScalars);
  scalars_.allocate();
}

void Optimizer::measured(int parameter, double sum_of_squares) {
  const double multiplier = parameters_[parameter].learning.multiplier;
  measured_[parameter] = sum_of_squares * (multiplier * multiplier);
}

double Optimizer::gradient_norm(const TrainState& state) {
  std::vector<double> sums = gradients_.sums_of_squares(state);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double multiplier = parameters_.all()[i].learning.multiplier;
    sums[i] *= multiplier * multiplier;
  }
  for (const auto& [parameter, sum] : measured_) sums[static_cast<std::size_t>(parameter)] = sum;
  measured_.clear();
  double total = 0;
  norms_.clear();
  for (const double sum : sums) {
    total += sum;
    norms_.push_back(std::sqrt(sum));
  }
  return global_norm_ = std::sqrt(total);
}

std::vector<double> Optimizer::clip_scales(double norm, bool each) const {
  std::vector<double> out(norms_.size());
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = clip_scale(each ? norms_[i] : global_norm_, norm);
  return out;
}

void Optimizer::average(const TrainState& state, double decay) {
  if (config_.offload && !state.averages().empty()) begin_transfers(state);
  for (std::size_t i = 0; i < state.averages().size(); ++i) {
    if (!state.averages()[i]) continue;
    state.will_change(static_cast<int>(i));
    const std::int64_t n = parameters_.all()[i].num_elements();
    for (std::int64_t first = 0; first < n; first += kMaxPiece) {
      const std::int64_t count = std::min(kMaxPiece, n - first);
      const Type type{DType::f32, {count}, {}};
      const TensorRef average = state.averages()[i].part(first, type);
      const TensorRef now = state.masters()[i].part(first, type);
      const ConstTensorRef in[] = {average, buffers_.load({&now, 1})[0]};
      averages_.run({count, decay}, in, {&average, 1});
      buffers_.release();
    }
  }
  buffers_.end();
}

void Optimizer::find_updates(const TrainState& state) {
  if (groups_) return;
  const auto has_copy = [&](int parameter) { return state.has_copy(parameter); };
  groups_ = fused_groups(parameters_, config_, state.lists(), has_copy);
  rule_groups_ = rule_groups(parameters_, config_, state.lists(), has_copy, max_piece_);
  sizes_ = state_sizes(parameters_, config_, state.lists(), *groups_, rule_groups_, has_copy);
}

void Optimizer::begin_transfers(const TrainState& state) {
  find_updates(state);
  buffers_.begin(sizes_);
}

void Optimizer::update(const TrainState& state, double lr,
                       const std::vector<double>& gradient_scales, std::int64_t step) {
  find_updates(state);
  for (int i = 0; i < std::ssize(parameters_.all()); ++i) {
    if (!parameters_[i].learns() || state.lists().is_shared(i)) continue;
    set_scalars(i, lr, gradient_scales[static_cast<std::size_t>(i)], step);
  }
  if (config_.offload) begin_transfers(state);
  for (const std::vector<FusedPart>& group : *groups_) update_fused(state, group);
  for (const std::vector<UpdatePiece>& group : rule_groups_) update_by_rule(state, group);
  buffers_.end();
}

// With p = multiplier * w, dL/dw is multiplier * dL/dp, and a step of w moves p that much further.
std::array<float, kNumScalars> Optimizer::scalars(int parameter, double lr, double gradient_scale,
                                                  std::int64_t step) const {
  const decoder::Parameter& p = parameters_[parameter];
  const double multiplier = p.learning.multiplier;
  return update_scalars(rule_of(p, config_), config_, lr * p.learning.lr_scale * multiplier,
                        gradient_scale * multiplier, step + 1);
}

void Optimizer::set_scalars(int parameter, double lr, double gradient_scale, std::int64_t step) {
  const auto narrow = scalars(parameter, lr, gradient_scale, step);
  std::array<double, kNumScalars> wide;
  std::ranges::copy(narrow, wide.begin());
  scalars_.set(static_cast<std::size_t>(parameter), wide);
}

namespace {

// Returns the elements of a tensor from `first` on, at most `count`; of a null one, null.
TensorRef elements(const TensorRef& tensor, std::int64_t first, std::int64_t count) {
  if (!tensor) return {};
  const std::int64_t left = tensor.type().num_elements() - first;
  return tensor.part(first, {tensor.type().dtype, {std::min(count, left)}, {}});
}

}  // namespace

void Optimizer::update_fused(const TrainState& state, const std::vector<FusedPart>& group) {
  const auto part_of = [](const FusedPart& part, std::span<const TensorRef> tensors) {
    return elements(tensors[static_cast<std::size_t>(part.parameter)], part.first,
                    part.num_elements());
  };
  std::vector<FusedAdamw> kinds;
  std::vector<TensorRef> changed;
  for (const FusedPart& part : group) {
    state.will_change(part.parameter);
    kinds.push_back(part.kind);
    changed.push_back(part_of(part, state.masters()));
    changed.push_back(part_of(part, state.first_moments()));
    changed.push_back(part_of(part, state.second_moments()));
  }
  const std::vector<TensorRef> loaded = buffers_.load(changed);
  std::vector<ConstTensorRef> in;
  std::vector<TensorRef> out;
  const TensorRef* p_m_v = loaded.data();
  for (const FusedPart& part : group) {
    const auto i = static_cast<std::size_t>(part.parameter);
    const bool is_listed = part.kind.slots > 0;
    in.push_back(p_m_v[0]);
    if (is_listed) in.push_back(state.gradient_ids()[i]);
    in.push_back(is_listed ? state.gradients()[i] : part_of(part, state.gradients()));
    in.insert(in.end(), {p_m_v[1], p_m_v[2], scalars_of(part.parameter)});
    out.insert(out.end(), p_m_v, p_m_v + 3);
    p_m_v += 3;
    if (!part.kind.copy) continue;
    out.push_back(part_of(part, state.copies()));
    if (is_listed) in.emplace_back(out.back());
  }
  fused_.run(kinds, in, out);
  buffers_.store();
}

TensorRef Optimizer::gradient_of(const TrainState& state, const UpdatePiece& piece) {
  const auto i = static_cast<std::size_t>(piece.parameter);
  if (!state.is_listed(piece.parameter))
    return elements(state.gradients()[i], piece.first, piece.num_elements());
  const Type type{DType::f32, parameters_[piece.parameter].desc.shape, {}};
  const auto bytes = static_cast<std::size_t>(type.bytes());
  if (!spread_ || spread_->bytes() < bytes) spread_ = arena_.backend().allocate(bytes);
  const TensorRef whole(*spread_, 0, type);
  if (piece.first == 0) gradients_.spread(state, piece.parameter, whole);
  return elements(whole, piece.first, piece.num_elements());
}

void Optimizer::update_by_rule(const TrainState& state, const std::vector<UpdatePiece>& group) {
  std::vector<UpdateKind> kinds;
  std::vector<TensorRef> changed;
  std::vector<std::size_t> num_changed;
  for (const UpdatePiece& piece : group) {
    const auto& [parameter, kind, first] = piece;
    const auto i = static_cast<std::size_t>(parameter);
    const std::int64_t n = parameters_[parameter].num_elements(), count = piece.num_elements();
    state.will_change(parameter);
    kinds.push_back(kind);
    const std::size_t before = changed.size();
    changed.push_back(elements(state.masters()[i], first, count));
    for (const OptimizerState& kept : state.optimizer_states()) {
      if (!kept.types[i]) continue;
      const bool scales = kept.types[i]->num_elements() < n && config_.moments == "8bit";
      changed.push_back(scales ? elements(kept.data[i], first / kBlock, kind.rows)
                               : elements(kept.data[i], first, count));
    }
    num_changed.push_back(changed.size() - before);
  }
  const std::vector<TensorRef> loaded = buffers_.load(changed);
  std::vector<ConstTensorRef> in;
  std::vector<TensorRef> out;
  auto next = loaded.begin();
  for (std::size_t g = 0; g < group.size(); ++g) {
    const auto end = next + static_cast<std::ptrdiff_t>(num_changed[g]);
    const int parameter = group[g].parameter;
    in.insert(in.end(), {*next, gradient_of(state, group[g])});
    in.insert(in.end(), next + 1, end);
    in.push_back(scalars_of(parameter));
    out.insert(out.end(), next, end);
    if (group[g].kind.copy)
      out.push_back(elements(state.copies()[static_cast<std::size_t>(parameter)], group[g].first,
                             group[g].num_elements()));
    next = end;
  }
  arena_.run(updates_.get(kinds), in, out);
  buffers_.store();
}

ConstTensorRef Optimizer::scalars_of(int parameter) const {
  return round_scalars_.empty() ? scalars_.input(static_cast<std::size_t>(parameter))
                                : round_scalars_.at(parameter);
}

void Optimizer::find_rounds(const TrainState& state) {
  if (!rounds_.empty()) return;
  const auto has_copy = [&](int parameter) { return state.has_copy(parameter); };
  for (std::size_t r = 0; r < state.lists().rounds.size(); ++r) {
    const GradientLists lists = lists_of_round(state.lists(), r);
    Round round{fused_groups(parameters_, config_, lists, has_copy),
                rule_groups(parameters_, config_, lists, has_copy, max_piece_)};
    for (std::vector<UpdatePiece>& group : round.by_rule)
      for (UpdatePiece& piece : group) piece.kind.skips = true;
    round_sizes_.add(
        state_sizes(parameters_, config_, lists, round.fused, round.by_rule, has_copy));
    rounds_.push_back(std::move(round));
  }
}

void Optimizer::begin_rounds(const TrainState& state) {
  find_rounds(state);
  if (config_.offload) buffers_.begin(round_sizes_);
}

void Optimizer::update_round(const TrainState& state, std::size_t round,
                             std::span<const ConstTensorRef> scalars) {
  const std::vector<int>& parameters = state.lists().rounds[round];
  for (std::size_t i = 0; i < parameters.size(); ++i) round_scalars_[parameters[i]] = scalars[i];
  for (const std::vector<FusedPart>& group : rounds_[round].fused) update_fused(state, group);
  for (const std::vector<UpdatePiece>& group : rounds_[round].by_rule) update_by_rule(state, group);
  round_scalars_.clear();
}

void Optimizer::end_rounds() { buffers_.end(); }

void Optimizer::add_addresses(std::vector<Address>& to) const {
  to.push_back(arena_.address());
  to.push_back(buffers_.address());
}

std::size_t Optimizer::update_bytes(const GradientLists& lists, DType compute) {
  std::size_t out = scratch_bytes(lists, compute);
  for (std::size_t r = 0; r < lists.rounds.size(); ++r)
    out = std::max(out, scratch_bytes(lists_of_round(lists, r), compute));
  return out;
}

std::size_t Optimizer::scratch_bytes(const GradientLists& lists, DType compute) {
  std::size_t arena = 0, whole = 0;
  const auto add = [&](std::size_t bytes) { arena = std::max(arena, bytes); };
  const auto has_copy = [&](int i) { return parameters_[i].used_dtype(compute) != DType::f32; };
  add(gradients_.norms_bytes(lists));
  const auto groups = fused_groups(parameters_, config_, lists, has_copy);
  for (const std::vector<FusedPart>& group : groups) {
    std::vector<FusedAdamw> kinds;
    for (const FusedPart& part : group) kinds.push_back(part.kind);
    add(fused_.get(kinds).arena_bytes());
  }
  const auto by_rule = rule_groups(parameters_, config_, lists, has_copy, max_piece_);
  for (const std::vector<UpdatePiece>& group : by_rule) {
    std::vector<UpdateKind> kinds;
    for (const UpdatePiece& piece : group) kinds.push_back(piece.kind);
    add(updates_.get(kinds).arena_bytes());
    const int parameter = group.front().parameter;
    const auto i = static_cast<std::size_t>(parameter);
    const std::int64_t slots = i < lists.step.size() ? lists.step[i] : 0;
    if (slots == 0) continue;
    whole = std::max(
        whole, static_cast<std::size_t>(parameters_[parameter].num_elements()) * sizeof(float));
    add(gradients_.spread_bytes(parameter, slots));
  }
  if (!config_.offload) return arena + whole;
  return arena + whole +
         state_sizes(parameters_, config_, lists, groups, by_rule, has_copy).bytes();
}

}  // namespace lamina::train
