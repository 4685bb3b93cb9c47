#include "train/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "ops/operands.h"
#include "ops/tensor.h"
#include "program/compile.h"
#include "runtime/host_access.h"
#include "train/loop/non_finite.h"

namespace lamina::train {
namespace {

// Elements that are updated at once, at most, so that temporaries stay small.
constexpr std::int64_t kPiece = std::int64_t{1} << 22;

Graph norm_graph(std::int64_t elements) {
  Graph graph;
  Tensor g = graph.add_input("g", {DType::f32, {elements}, {}});
  graph.add_output("sum", ops::sum_of_squares(g));
  return graph;
}

Graph clear_graph(std::int64_t elements) {
  Graph graph;
  graph.add_output("zeros", ops::constant(graph, {DType::f32, {elements}, {}}, 0));
  return graph;
}

Graph average_graph(std::int64_t elements, double decay) {
  Graph graph;
  Tensor average = graph.add_input("average", {DType::f32, {elements}, {}});
  Tensor now = graph.add_input("now", {DType::f32, {elements}, {}});
  graph.add_output("average", average + ops::scale(now - average, 1 - decay), 0);
  return graph;
}

Graph add_rows_graph(std::int64_t rows, std::int64_t width, std::int64_t slots,
                     std::int64_t more_slots) {
  Graph graph;
  Tensor ids = graph.add_input("ids", {DType::i32, {slots}, {}});
  Tensor sums = graph.add_input("sums", {DType::f32, {slots, width}, {}});
  Tensor more_ids = graph.add_input("more ids", {DType::i32, {more_slots}, {}});
  Tensor more = graph.add_input("more", {DType::f32, {more_slots, width}, {}});
  const auto made = ops::add_rows(ids, sums, more_ids, more, {.rows = rows});
  graph.add_output("ids", made.ids_out, 0);
  graph.add_output("sums", made.sums_out, 1);
  return graph;
}

Graph spread_graph(std::int64_t rows, std::int64_t width, std::int64_t slots) {
  Graph graph;
  Tensor ids = graph.add_input("ids", {DType::i32, {slots}, {}});
  Tensor sums = graph.add_input("sums", {DType::f32, {slots, width}, {}});
  graph.add_output("whole", ops::embedding_grad(ids, sums, {}, {.rows = rows}));
  return graph;
}

// Relative to the rate that update() gives the rule, which contains the multiplier.
double weight_decay(const decoder::Parameter& p, const config::OptimizerSection& config) {
  return p.learning.weight_decay.value_or(p.decays() ? config.weight_decay : 0.0) /
         p.learning.multiplier;
}

Graph adamw_graph(std::int64_t elements, const config::OptimizerSection& config,
                  double weight_decay, bool copy) {
  namespace in = operand::adamw;
  Graph graph;
  auto flat = [&](const char* name) { return graph.add_input(name, {DType::f32, {elements}, {}}); };
  const ops::AdamwInputs inputs{.p = flat("p"),
                                .g = flat("g"),
                                .m = flat("m"),
                                .v = flat("v"),
                                .scalars = graph.add_input("scalars", {DType::f32, {4}, {}})};
  const auto results = ops::adamw(inputs, {.beta1 = config.beta1,
                                           .beta2 = config.beta2,
                                           .eps = config.eps,
                                           .weight_decay = weight_decay,
                                           .copy = copy});
  graph.add_output("p", results.p_out, in::kP);
  graph.add_output("m", results.m_out, in::kM);
  graph.add_output("v", results.v_out, in::kV);
  if (copy) graph.add_output("copy", results.copy);
  return graph;
}

Graph adamw_rows_graph(std::int64_t rows, std::int64_t width, std::int64_t slots,
                       const config::OptimizerSection& config, double weight_decay, bool copy) {
  namespace in = operand::adamw_rows;
  Graph graph;
  auto table = [&](const char* name) {
    return graph.add_input(name, {DType::f32, {rows, width}, {}});
  };
  ops::AdamwRowsInputs inputs{.p = table("p"),
                              .ids = graph.add_input("ids", {DType::i32, {slots}, {}}),
                              .g = graph.add_input("g", {DType::f32, {slots, width}, {}}),
                              .m = table("m"),
                              .v = table("v"),
                              .scalars = graph.add_input("scalars", {DType::f32, {4}, {}})};
  if (copy) inputs.copy = graph.add_input("copy", {DType::bf16, {rows, width}, {}});
  const auto results = ops::adamw_rows(inputs, {.beta1 = config.beta1,
                                                .beta2 = config.beta2,
                                                .eps = config.eps,
                                                .weight_decay = weight_decay,
                                                .lazy = config.lazy_embeddings});
  graph.add_output("p", results.p_out, in::kP);
  graph.add_output("m", results.m_out, in::kM);
  graph.add_output("v", results.v_out, in::kV);
  if (copy) graph.add_output("copy", results.copy_out, in::kCopy);
  return graph;
}

}  // namespace

double clip_scale(double norm, double limit) {
  constexpr double kMargin = 1e-6;
  return limit <= 0 ? 1.0 : std::min(1.0, limit / (norm + kMargin));
}

Optimizer::Optimizer(const decoder::ParameterTable& parameters,
                     const config::OptimizerSection& config, const Backend& backend)
    : parameters_(parameters), config_(config), backend_(backend) {}

Graph Optimizer::graph_of(const Kind& k) const {
  switch (k.work) {
    case Kind::Work::norm:
      return norm_graph(k.rows);
    case Kind::Work::clear:
      return clear_graph(k.rows);
    case Kind::Work::join:
      return add_rows_graph(k.rows, k.width, k.slots, k.more_slots);
    case Kind::Work::average:
      return average_graph(k.rows, k.decay);
    case Kind::Work::spread:
      return spread_graph(k.rows, k.width, k.slots);
    case Kind::Work::update:
      break;
  }
  return k.slots > 0 ? adamw_rows_graph(k.rows, k.width, k.slots, config_, k.decay, k.copy)
                     : adamw_graph(k.rows, config_, k.decay, k.copy);
}

template <typename Make>
void Optimizer::run(std::unique_ptr<Program>& program, Make graph,
                    std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs) {
  if (!program) program = program::compile(graph(), backend_);
  const std::size_t bytes = program->arena_bytes();
  if (!arena_ || arena_->bytes() < bytes) arena_ = backend_.allocate(bytes);
  program->set_trace(trace_);
  program->run(inputs, outputs, *arena_);
}

void Optimizer::run(const Kind& kind, std::span<const ConstTensorRef> inputs,
                    std::span<const TensorRef> outputs) {
  run(
      programs_[kind], [&] { return graph_of(kind); }, inputs, outputs);
}

double Optimizer::measure(const TrainState& state, int parameter) {
  double& sum = measured_[parameter];
  const ConstTensorRef in = state.gradients()[static_cast<std::size_t>(parameter)];
  const TensorRef out = host_tensor(std::span(&sum, 1));
  run({.work = Kind::Work::norm, .rows = state.num_gradient_elements(parameter)}, {&in, 1},
      {&out, 1});
  const double multiplier = parameters_[parameter].learning.multiplier;
  sum *= multiplier * multiplier;
  return std::sqrt(sum);
}

double Optimizer::gradient_norm(const TrainState& state) {
  double total = 0;
  norms_.assign(parameters_.all().size(), 0);
  for (std::size_t i = 0; i < parameters_.all().size(); ++i)
    if (parameters_.all()[i].learns() && !state.lists().is_shared(static_cast<int>(i)))
      measure(state, static_cast<int>(i));
  for (const auto& [parameter, sum] : measured_) {
    total += sum;
    norms_[static_cast<std::size_t>(parameter)] = std::sqrt(sum);
  }
  measured_.clear();
  return global_norm_ = std::sqrt(total);
}

std::vector<double> Optimizer::clip_scales(double norm, bool each) const {
  std::vector<double> out(norms_.size());
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = clip_scale(each ? norms_[i] : global_norm_, norm);
  return out;
}

std::optional<Optimizer::BadGradient> Optimizer::first_non_finite(const TrainState& state) const {
  for (std::size_t i = 0; i < parameters_.all().size(); ++i)
    if (const auto parameter = static_cast<int>(i);
        parameters_[parameter].learns() && !state.lists().is_shared(parameter))
      if (auto bad = first_non_finite(state, parameter)) return bad;
  return std::nullopt;
}

std::optional<Optimizer::BadGradient> Optimizer::first_non_finite(const TrainState& state,
                                                                  int parameter) const {
  const auto i = static_cast<std::size_t>(parameter);
  auto bad = read_tensor<float>(state.queue(), state.gradients()[i],
                                [](auto values) { return train::first_non_finite(values); });
  if (!bad) return std::nullopt;
  if (state.is_listed(parameter)) {
    const auto ids = copy_to_host<std::int32_t>(state.queue(), state.gradient_ids()[i]);
    const std::int64_t width = parameters_[parameter].desc.shape[-1];
    bad->element =
        ids[static_cast<std::size_t>(bad->element / width)] * width + bad->element % width;
  }
  return BadGradient{parameter, *bad};
}

void Optimizer::clear_sums(const TrainState& state) {
  for (std::size_t i = 0; i < parameters_.all().size(); ++i) {
    const decoder::Parameter& p = parameters_.all()[i];
    if (!p.learns() || state.is_listed(static_cast<int>(i))) continue;
    const TensorRef& sum = state.gradients()[i];
    run({.work = Kind::Work::clear, .rows = p.num_elements()}, {}, {&sum, 1});
  }
}

void Optimizer::join_lists(const TrainState& state) {
  for (std::size_t i = 0; i < parameters_.all().size(); ++i) {
    if (!state.is_listed(static_cast<int>(i))) continue;
    const decoder::Parameter& p = parameters_.all()[i];
    const TensorRef &ids = state.gradient_ids()[i], &sum = state.gradients()[i];
    const ConstTensorRef in[] = {ids, sum, state.more_gradient_ids()[i], state.more_gradients()[i]};
    const TensorRef out[] = {ids, sum};
    run({.work = Kind::Work::join,
         .rows = p.desc.shape[0],
         .width = p.desc.shape[1],
         .slots = state.lists().step[i],
         .more_slots = state.lists().microbatch[i]},
        in, out);
  }
}

void Optimizer::average(const TrainState& state, double decay) {
  for (std::size_t i = 0; i < state.averages().size(); ++i) {
    if (!state.averages()[i]) continue;
    state.will_change(static_cast<int>(i));
    const std::int64_t n = parameters_.all()[i].num_elements();
    for (std::int64_t first = 0; first < n; first += kPiece) {
      const std::int64_t count = std::min(kPiece, n - first);
      const Type type{DType::f32, {count}, {}};
      const TensorRef average = state.averages()[i].part(first, type);
      const ConstTensorRef in[] = {average, state.masters()[i].part(first, type)};
      run({.work = Kind::Work::average, .rows = count, .decay = decay}, in, {&average, 1});
    }
  }
}

void Optimizer::update(const TrainState& state, double lr,
                       const std::vector<double>& gradient_scales, std::int64_t step) {
  for (std::size_t i = 0; i < parameters_.all().size(); ++i)
    if (const auto parameter = static_cast<int>(i);
        parameters_[parameter].learns() && !state.lists().is_shared(parameter))
      update(state, parameter, lr, gradient_scales[i], step);
}

void Optimizer::update(const TrainState& state, int parameter, double lr, double gradient_scale,
                       std::int64_t step) {
  const decoder::Parameter& p = parameters_[parameter];
  state.will_change(parameter);
  const UpdateRule rule = rule_of(p, config_);
  // With p = multiplier * w, dL/dw is multiplier * dL/dp, and a step of w moves p that much
  // further.
  const double multiplier = p.learning.multiplier;
  const auto scalars = update_scalars(rule, config_, lr * p.learning.lr_scale * multiplier,
                                      gradient_scale * multiplier, step + 1);
  if (is_fused(rule))
    update_adamw(state, parameter, scalars);
  else
    update_by_rule(state, parameter, rule, scalars);
}

// Beside Muon AdamW has Nesterov's momentum.
bool Optimizer::is_fused(UpdateRule rule) const {
  return rule == UpdateRule::adamw && config_.name == "adamw" && config_.moments == "float32" &&
         config_.eps_root == 0;
}

Optimizer::Kind Optimizer::adamw_kind(int parameter, std::int64_t slots, bool copy) const {
  const decoder::Parameter& p = parameters_[parameter];
  Kind kind{.work = Kind::Work::update,
            .rows = p.num_elements(),
            .decay = weight_decay(p, config_),
            .copy = copy};
  if (slots == 0) return kind;
  kind.rows = p.desc.shape[0];
  kind.width = p.desc.shape[1];
  kind.slots = slots;
  return kind;
}

void Optimizer::update_adamw(const TrainState& state, int parameter,
                             std::span<const float> scalars) {
  const auto i = static_cast<std::size_t>(parameter);
  const bool copy = state.has_copy(parameter);
  const TensorRef &master = state.masters()[i], &m = state.first_moments()[i],
                  &v = state.second_moments()[i];
  const ConstTensorRef g = state.gradients()[i], numbers = host_tensor(scalars);
  const TensorRef used = copy ? state.copies()[i] : TensorRef();
  const TensorRef out[] = {master, m, v, used};
  const std::span<const TensorRef> results(out, copy ? 4 : 3);
  const bool listed = state.is_listed(parameter);
  const Kind kind = adamw_kind(parameter, listed ? state.lists().step[i] : 0, copy);
  if (!listed) {
    const ConstTensorRef in[] = {master, g, m, v, numbers};
    run(kind, in, results);
    return;
  }
  const ConstTensorRef in[] = {master, state.gradient_ids()[i], g, m, v, numbers, used};
  run(kind, std::span(in, copy ? 7 : 6), results);
}

Optimizer::Kind Optimizer::spread_kind(int parameter, std::int64_t slots) const {
  const Shape& table = parameters_[parameter].desc.shape;
  return {.work = Kind::Work::spread, .rows = table[0], .width = table[1], .slots = slots};
}

TensorRef Optimizer::spread(const TrainState& state, int parameter) {
  const auto i = static_cast<std::size_t>(parameter);
  if (!state.is_listed(parameter)) return state.gradients()[i];
  const Shape& table = parameters_[parameter].desc.shape;
  const auto bytes = static_cast<std::size_t>(table.num_elements()) * sizeof(float);
  if (!spread_ || spread_->bytes() < bytes) spread_ = backend_.allocate(bytes);
  const ConstTensorRef in[] = {state.gradient_ids()[i], state.gradients()[i]};
  const TensorRef out(*spread_, 0, {DType::f32, table, {}});
  run(spread_kind(parameter, state.lists().step[i]), in, {&out, 1});
  return out;
}

std::vector<Optimizer::Piece> Optimizer::pieces_of(int parameter, UpdateRule rule,
                                                   bool copy) const {
  const decoder::Parameter& p = parameters_[parameter];
  const std::int64_t n = p.num_elements();
  Piece piece{{.rule = rule, .weight_decay = weight_decay(p, config_), .copy = copy}};
  UpdateKind& kind = piece.kind;
  const bool blocks = config_.moments == "8bit";
  if (!is_elementwise(rule)) {
    LAMINA_ASSERT(!blocks);
    const Shape& shape = p.desc.shape;
    kind.width = shape.ndim() > 0 ? shape[-1] : 1;
    kind.rows = shape.ndim() > 1 ? shape[-2] : 1;
    kind.batch = n / std::max<std::int64_t>(kind.rows * kind.width, 1);
    kind.split_rows = p.learning.split_rows;
    return {std::move(piece)};
  }
  std::vector<Piece> out;
  while (piece.first < n) {
    const std::int64_t left = std::min(kPiece, n - piece.first);
    kind.rows = blocks ? std::max<std::int64_t>(left / kBlock, 1) : 1;
    kind.width = blocks ? std::min(left, kBlock) : left;
    out.push_back(piece);
    piece.first += kind.rows * kind.width;
  }
  return out;
}

void Optimizer::update_by_rule(const TrainState& state, int parameter, UpdateRule rule,
                               std::span<const float> scalars) {
  const TensorRef gradient = spread(state, parameter);
  for (const Piece& piece : pieces_of(parameter, rule, state.has_copy(parameter)))
    update_piece(state, parameter, piece, gradient, scalars);
}

void Optimizer::update_piece(const TrainState& state, int parameter, const Piece& piece,
                             const TensorRef& gradient, std::span<const float> scalars) {
  const auto& [kind, first] = piece;
  const auto i = static_cast<std::size_t>(parameter);
  auto from = [](const TensorRef& tensor, std::int64_t element) {
    const std::int64_t left = tensor.type().num_elements() - element;
    return tensor.part(element, {tensor.type().dtype, {left}, {}});
  };
  std::vector<TensorRef> out{from(state.masters()[i], first)};
  std::vector<ConstTensorRef> in{out[0], from(gradient, first)};
  for (const OptimizerState& kept : state.optimizer_states()) {
    if (!kept.types[i]) continue;
    const bool scales = kept.types[i]->num_elements() < parameters_[parameter].num_elements() &&
                        config_.moments == "8bit";
    out.push_back(from(kept.data[i], scales ? first / kBlock : first));
    in.push_back(out.back());
  }
  in.push_back(host_tensor(scalars));
  if (kind.copy) out.push_back(from(state.copies()[i], first));
  run(
      updates_[kind], [&] { return update_graph(kind, config_); }, in, out);
}

std::size_t Optimizer::scratch_bytes(const GradientLists& lists, DType compute) {
  std::size_t arena = 0, whole = 0;
  auto add = [&](std::unique_ptr<Program>& program, auto graph) {
    if (!program) program = program::compile(graph(), backend_);
    arena = std::max(arena, program->arena_bytes());
  };
  auto add_kind = [&](const Kind& kind) { add(programs_[kind], [&] { return graph_of(kind); }); };
  for (std::size_t i = 0; i < parameters_.all().size(); ++i) {
    const decoder::Parameter& p = parameters_.all()[i];
    if (!p.learns()) continue;
    const auto parameter = static_cast<int>(i);
    const std::int64_t slots = i < lists.step.size() ? lists.step[i] : 0;
    const bool copy = p.used_dtype(compute) != DType::f32;
    const UpdateRule rule = rule_of(p, config_);
    if (is_fused(rule)) {
      add_kind(adamw_kind(parameter, slots, copy));
      continue;
    }
    if (slots > 0) {
      whole = std::max(whole, static_cast<std::size_t>(p.num_elements()) * sizeof(float));
      add_kind(spread_kind(parameter, slots));
    }
    for (const Piece& piece : pieces_of(parameter, rule, copy))
      add(updates_[piece.kind], [&] { return update_graph(piece.kind, config_); });
  }
  return arena + whole;
}

}  // namespace lamina::train
