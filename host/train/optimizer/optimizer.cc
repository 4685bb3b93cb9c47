#include "train/optimizer/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "core/error.h"
#include "ops/tensor.h"

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
                       const std::function<bool(int)>& has_copy) {
  StateSizes out;
  for (const std::vector<FusedPart>& group : fused) {
    std::size_t bytes = 0;
    for (const FusedPart& part : group)
      bytes += update_bytes(parameters[part.parameter], config, part.num_elements(),
                            has_copy(part.parameter));
    out.add(bytes);
  }
  for (int i = 0; i < std::ssize(parameters.all()); ++i) {
    const decoder::Parameter& p = parameters[i];
    const UpdateRule rule = rule_of(p, config);
    if (!p.learns() || (is_fused(rule, config) && !lists.is_shared(i))) continue;
    const std::int64_t n = p.num_elements();
    out.add(
        update_bytes(p, config, is_elementwise(rule) ? std::min(n, kMaxPiece) : n, has_copy(i)));
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
      arena_(backend),
      buffers_(backend),
      gradients_(parameters, arena_),
      fused_(arena_,
             [this](const std::vector<FusedAdamw>& kinds) {
               return fused_adamw_graph(kinds, config_);
             }),
      updates_(arena_, [this](const UpdateKind& kind) { return update_graph(kind, config_); }),
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
  sizes_ = state_sizes(parameters_, config_, state.lists(), *groups_, has_copy);
}

void Optimizer::begin_transfers(const TrainState& state) {
  find_updates(state);
  buffers_.begin(sizes_);
}

void Optimizer::update(const TrainState& state, double lr,
                       const std::vector<double>& gradient_scales, std::int64_t step) {
  find_updates(state);
  std::vector<int> by_rule;
  for (int i = 0; i < std::ssize(parameters_.all()); ++i) {
    if (!parameters_[i].learns() || state.lists().is_shared(i)) continue;
    set_scalars(i, lr, gradient_scales[static_cast<std::size_t>(i)], step);
    if (!is_fused(rule_of(parameters_[i], config_), config_)) by_rule.push_back(i);
  }
  if (config_.offload) begin_transfers(state);
  for (const std::vector<FusedPart>& group : *groups_) update_fused(state, group);
  for (const int parameter : by_rule) update_by_rule(state, parameter);
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
    in.insert(in.end(), {p_m_v[1], p_m_v[2], scalars_.input(i)});
    out.insert(out.end(), p_m_v, p_m_v + 3);
    p_m_v += 3;
    if (!part.kind.copy) continue;
    out.push_back(part_of(part, state.copies()));
    if (is_listed) in.emplace_back(out.back());
  }
  fused_.run(kinds, in, out);
  buffers_.store();
}

TensorRef Optimizer::whole_gradient(const TrainState& state, int parameter) {
  if (!state.is_listed(parameter)) return state.gradients()[static_cast<std::size_t>(parameter)];
  const Type type{DType::f32, parameters_[parameter].desc.shape, {}};
  const auto bytes = static_cast<std::size_t>(type.bytes());
  if (!spread_ || spread_->bytes() < bytes) spread_ = arena_.backend().allocate(bytes);
  const TensorRef whole(*spread_, 0, type);
  gradients_.spread(state, parameter, whole);
  return whole;
}

void Optimizer::update_by_rule(const TrainState& state, int parameter) {
  state.will_change(parameter);
  const TensorRef gradient = whole_gradient(state, parameter);
  for (const UpdatePiece& piece :
       update_pieces(parameters_[parameter], config_, state.has_copy(parameter)))
    update_piece(state, parameter, piece, gradient);
}

void Optimizer::update_piece(const TrainState& state, int parameter, const UpdatePiece& piece,
                             const TensorRef& gradient) {
  const auto& [kind, first] = piece;
  const auto i = static_cast<std::size_t>(parameter);
  const std::int64_t n = parameters_[parameter].num_elements();
  const std::int64_t count = kind.batch * kind.rows * kind.width;
  std::vector<TensorRef> changed{elements(state.masters()[i], first, count)};
  for (const OptimizerState& kept : state.optimizer_states()) {
    if (!kept.types[i]) continue;
    const bool scales = kept.types[i]->num_elements() < n && config_.moments == "8bit";
    changed.push_back(scales ? elements(kept.data[i], first / kBlock, kind.rows)
                             : elements(kept.data[i], first, count));
  }
  std::vector<TensorRef> out = buffers_.load(changed);
  std::vector<ConstTensorRef> in{out[0], elements(gradient, first, count)};
  in.insert(in.end(), out.begin() + 1, out.end());
  in.push_back(scalars_.input(i));
  if (kind.copy) out.push_back(elements(state.copies()[i], first, count));
  updates_.run(kind, in, out);
  buffers_.store();
}

std::size_t Optimizer::scratch_bytes(const GradientLists& lists, DType compute) {
  std::size_t arena = 0, whole = 0;
  const auto add = [&](std::size_t bytes) { arena = std::max(arena, bytes); };
  const auto has_copy = [&](int i) { return parameters_[i].used_dtype(compute) != DType::f32; };
  const auto groups = fused_groups(parameters_, config_, lists, has_copy);
  for (const std::vector<FusedPart>& group : groups) {
    std::vector<FusedAdamw> kinds;
    for (const FusedPart& part : group) kinds.push_back(part.kind);
    add(fused_.get(kinds).arena_bytes());
  }
  for (std::size_t i = 0; i < parameters_.all().size(); ++i) {
    const decoder::Parameter& p = parameters_.all()[i];
    const auto parameter = static_cast<int>(i);
    if (!p.learns() || lists.is_shared(parameter) || is_fused(rule_of(p, config_), config_))
      continue;
    const std::int64_t slots = i < lists.step.size() ? lists.step[i] : 0;
    if (slots > 0) {
      whole = std::max(whole, static_cast<std::size_t>(p.num_elements()) * sizeof(float));
      add(gradients_.spread_bytes(parameter, slots));
    }
    for (const UpdatePiece& piece : update_pieces(p, config_, has_copy(parameter)))
      add(updates_.get(piece.kind).arena_bytes());
  }
  if (!config_.offload) return arena + whole;
  return arena + whole + state_sizes(parameters_, config_, lists, groups, has_copy).bytes();
}

}  // namespace lamina::train
