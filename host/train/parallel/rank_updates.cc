#include "train/parallel/rank_updates.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "ops/tensor.h"
#include "runtime/host_access.h"
#include "train/optimizer/update_check.h"

namespace lamina::train {
namespace {

constexpr auto kNumNumbers = static_cast<std::int64_t>(kNumScalars);
const Type kNumbers{DType::f64, {kNumNumbers}, {}}, kScalars{DType::f32, {kNumNumbers}, {}},
    kCheck{DType::f64, {3}, {}}, kUpdating{DType::f64, {}, {}};

// Elements of a row of each parameter: a kernel reads and writes aligned rows.
constexpr std::int64_t kRow = 8;

Type rows_type(DType dtype, std::size_t rows) {
  return {dtype, {static_cast<std::int64_t>(rows) * kRow}, {}};
}

// Adds the tensors of RankUpdates: numbers, scalars, checks, and `updating`.
void add_parts(BufferParts& parts, std::size_t rows) {
  for (const Type& type : {rows_type(DType::f64, rows), rows_type(DType::f32, rows),
                           rows_type(DType::f64, rows), kUpdating})
    parts.add(static_cast<std::size_t>(type.bytes()));
}

// The sizes of the gradients of a round.
std::vector<std::int64_t> elements_of(const std::vector<int>& parameters,
                                      const decoder::ParameterTable& table) {
  std::vector<std::int64_t> out;
  for (const int parameter : parameters) out.push_back(table[parameter].num_elements());
  return out;
}

}  // namespace

// The first round begins with `updating` = 1. All sums of squares follow each other, because a
// device may compute them in one call.
Graph RankUpdates::checks_graph(const Sizes& sizes, double clip_norm) {
  Graph graph;
  std::vector<Tensor> gradients, numbers, squares;
  for (const std::int64_t elements : sizes.elements) {
    gradients.push_back(graph.add_input("g", {DType::f32, {elements}, {}}));
    numbers.push_back(graph.add_input("numbers", kNumbers));
  }
  const int alias = sizes.is_first ? -1 : static_cast<int>(graph.inputs().size());
  Tensor updating =
      sizes.is_first ? ops::constant(graph, kUpdating, 1) : graph.add_input("updating", kUpdating);
  for (const Tensor& g : gradients) squares.push_back(ops::sum_of_squares(g));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const UpdateCheck check =
        check_update(gradients[i], squares[i], numbers[i], updating, clip_norm);
    updating = check.updating;
    graph.add_output("scalars", check.scalars);
    graph.add_output("check", check.result);
  }
  graph.add_output("updating", updating, alias);
  return graph;
}

RankUpdates::RankUpdates(program::BoundProgram& program, const TrainState& state,
                         Optimizer& optimizer, Communicator& communicator, double clip_norm)
    : BackwardUpdates(optimizer),
      program_(program),
      state_(state),
      optimizer_(optimizer),
      communicator_(communicator),
      rounds_(backward_rounds(program.program().graph(), program.input_roles(),
                              program.output_roles())),
      programs_(optimizer.arena(),
                [clip_norm](const Sizes& sizes) { return checks_graph(sizes, clip_norm); }) {
  LAMINA_ASSERT(rounds_.size() == state.lists().rounds.size());
  rows_.resize(state.gradients().size());
  std::size_t rows = 0;
  for (std::size_t r = 0; r < rounds_.size(); ++r) {
    LAMINA_ASSERT(rounds_[r].parameters == state.lists().rounds[r]);
    for (const int parameter : rounds_[r].parameters)
      rows_[static_cast<std::size_t>(parameter)] = static_cast<std::int64_t>(rows++) * kRow;
  }
  add_parts(memory_, rows);
  memory_.allocate(communicator.backend());
  numbers_ = memory_.tensor(0, rows_type(DType::f64, rows));
  scalars_ = memory_.tensor(1, rows_type(DType::f32, rows));
  checks_ = memory_.tensor(2, rows_type(DType::f64, rows));
  updating_ = memory_.tensor(3, kUpdating);
}

void RankUpdates::begin(double lr, std::int64_t update) {
  forget_results();
  num_left_ = 0;
  write_tensor<double>(state_.queue(), numbers_, [&](std::span<double> values) {
    for (const BackwardRound& round : rounds_)
      for (const int parameter : round.parameters) {
        state_.will_change(parameter);
        std::ranges::copy(numbers(parameter, lr, update),
                          values.begin() + rows_[static_cast<std::size_t>(parameter)]);
      }
  });
  optimizer_.begin_rounds(state_);
}

// The host waits for the round before: only here, and not in the driver, can it notice that another
// rank has failed. By then it has enqueued this round, so the device works on.
void RankUpdates::left(NodeId scan, std::int64_t element) {
  if (num_left_ == rounds_.size()) return;
  const BackwardRound& round = rounds_[num_left_];
  if (round.scan != scan) return;
  LAMINA_ASSERT(round.element == element);
  communicator_.finish();
  send(num_left_);
  if (num_left_ > 0) update(num_left_ - 1);
  ++num_left_;
}

void RankUpdates::finish() {
  LAMINA_ASSERT(num_left_ == rounds_.size());
  communicator_.finish();
  if (num_left_ > 0) update(num_left_ - 1);
  optimizer_.end_rounds();
}

void RankUpdates::send(std::size_t round) {
  std::vector<TensorRef> gradients;
  for (const int parameter : rounds_[round].parameters)
    gradients.push_back(state_.gradients()[static_cast<std::size_t>(parameter)]);
  communicator_.queue().wait(program_.program().queue().record());
  communicator_.all_reduce(gradients);
}

void RankUpdates::update(std::size_t round) {
  const std::vector<int>& parameters = rounds_[round].parameters;
  std::vector<ConstTensorRef> in, scalars;
  std::vector<TensorRef> out;
  for (const int parameter : parameters) {
    const auto i = static_cast<std::size_t>(parameter);
    in.insert(in.end(), {state_.gradients()[i], numbers_.part(rows_[i], kNumbers)});
    out.insert(out.end(), {scalars_.part(rows_[i], kScalars), checks_.part(rows_[i], kCheck)});
    scalars.emplace_back(scalars_.part(rows_[i], kScalars));
  }
  if (round > 0) in.emplace_back(updating_);
  out.push_back(updating_);
  programs_.run({elements_of(parameters, optimizer_.parameters()), round == 0}, in, out);
  optimizer_.update_round(state_, round, scalars);
}

void RankUpdates::read() {
  const auto checks = copy_to_host<double>(state_.queue(), checks_);
  for (const BackwardRound& round : rounds_)
    for (const int parameter : round.parameters)
      take(parameter, checks.data() + rows_[static_cast<std::size_t>(parameter)]);
}

std::size_t RankUpdates::bytes(const GradientLists& lists, const decoder::ParameterTable& table,
                               const Backend& backend) {
  if (lists.rounds.empty()) return 0;
  BufferParts parts;
  add_parts(parts, lists.num_shared());
  constexpr double kSomeClipNorm = 1;  // graphs that clip are the larger ones
  program::ProgramArena arena(backend);
  program::TensorPrograms<Sizes> programs(
      arena, [](const Sizes& sizes) { return checks_graph(sizes, kSomeClipNorm); });
  std::size_t most = 0;
  for (std::size_t r = 0; r < lists.rounds.size(); ++r)
    most =
        std::max(most, programs.get({elements_of(lists.rounds[r], table), r == 0}).arena_bytes());
  return parts.bytes() + most;
}

}  // namespace lamina::train
