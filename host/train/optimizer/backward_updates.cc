#include "train/optimizer/backward_updates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"
#include "runtime/host_access.h"
#include "train/optimizer/update_checks.h"

namespace lamina::train {
namespace {

const Type kUpdating{DType::f64, {}, {}};

Type rows_type(DType dtype, std::size_t rows) {
  return {dtype, {static_cast<std::int64_t>(rows), kCheckRow}, {}};
}

// Adds the tensors of BackwardUpdates: numbers, scalars, checks, and `updating`.
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

BackwardUpdates::BackwardUpdates(program::BoundProgram& program, const TrainState& state,
                                 Optimizer& optimizer, double clip_norm)
    : program_(program),
      state_(state),
      optimizer_(optimizer),
      rounds_(backward_rounds(program.program().graph(), program.input_roles(),
                              program.output_roles())),
      measures_(optimizer.arena(),
                [](const std::vector<std::int64_t>& elements) { return measure_graph(elements); }),
      scalars_programs_(optimizer.arena(), [clip_norm](const ScalarsKind& kind) {
        return scalars_graph(kind.n, kind.is_first, clip_norm);
      }) {
  LAMINA_ASSERT(rounds_.size() == state.lists().rounds.size());
  rows_.resize(state.gradients().size());
  std::size_t rows = 0;
  for (std::size_t r = 0; r < rounds_.size(); ++r) {
    LAMINA_ASSERT(rounds_[r].parameters == state.lists().rounds[r]);
    for (const int parameter : rounds_[r].parameters)
      rows_[static_cast<std::size_t>(parameter)] = static_cast<std::int64_t>(rows++);
  }
  add_parts(memory_, rows);
  memory_.allocate(optimizer.arena().backend());
  numbers_ = memory_.tensor(0, rows_type(DType::f64, rows));
  scalars_ = memory_.tensor(1, rows_type(DType::f32, rows));
  checks_ = memory_.tensor(2, rows_type(DType::f64, rows));
  updating_ = memory_.tensor(3, kUpdating);
}

void BackwardUpdates::begin(double lr, std::int64_t update) {
  num_updated_ = 0;
  bad_.reset();
  if (rounds_.empty()) return;
  write_tensor<double>(state_.queue(), numbers_, [&](std::span<double> values) {
    std::ranges::fill(values, 0);
    for (const BackwardRound& round : rounds_)
      for (const int parameter : round.parameters) {
        state_.will_change(parameter);
        const auto row = values.begin() + rows_[static_cast<std::size_t>(parameter)] * kCheckRow;
        std::ranges::copy(optimizer_.scalars(parameter, lr, 1, update), row);
        // Clipping multiplies it in f64.
        row[kGradientScale] = optimizer_.multiplier(parameter);
      }
  });
}

void BackwardUpdates::around(const std::function<void()>& run) {
  const Watching watching(program_.program(), *this);
  run();
}

void BackwardUpdates::enter(const Graph& graph, NodeId scan, std::int64_t element) {
  if (&graph != &program_.program().graph()) {
    ++depth_;
    return;
  }
  scan_ = scan;
  element_ = element;
  depth_ = 0;
}

void BackwardUpdates::leave() {
  if (--depth_ >= 0) return;
  const auto is_this = [&](const BackwardRound& round) {
    return round.scan == scan_ && round.element == element_;
  };
  const auto found = std::ranges::find_if(rounds_, is_this);
  if (found != rounds_.end()) ended(static_cast<std::size_t>(found - rounds_.begin()));
}

bool BackwardUpdates::can_be_recorded(std::vector<Address>& addresses) const {
  optimizer_.add_addresses(addresses);
  return true;
}

TensorRef BackwardUpdates::row_of(const TensorRef& rows, int parameter, std::int64_t place,
                                  Shape shape) const {
  const std::int64_t row = rows_[static_cast<std::size_t>(parameter)];
  return rows.part(row * kCheckRow + place, {rows.type().dtype, std::move(shape), {}});
}

void BackwardUpdates::update(std::size_t round) {
  if (round == 0) optimizer_.begin_rounds(state_);
  const std::vector<int>& parameters = rounds_[round].parameters;
  std::vector<ConstTensorRef> gradients, scalars;
  std::vector<TensorRef> checks;
  for (const int parameter : parameters) {
    gradients.push_back(state_.gradients()[static_cast<std::size_t>(parameter)]);
    checks.push_back(row_of(checks_, parameter, kSquares, {}));
    checks.push_back(row_of(checks_, parameter, kBadElement, {2}));
    scalars.push_back(row_of(scalars_, parameter, 0, {static_cast<std::int64_t>(kNumScalars)}));
  }
  measures_.run(elements_of(parameters, optimizer_.parameters()), gradients, checks);

  // The rows of a round follow each other.
  const std::int64_t n = std::ssize(parameters);
  const auto rows = [&](const TensorRef& of) {
    return row_of(of, parameters.front(), 0, {n, kCheckRow});
  };
  std::vector<ConstTensorRef> in{rows(checks_), rows(numbers_)};
  if (round > 0) in.emplace_back(updating_);
  scalars_programs_.run({n, round == 0}, in, std::array{rows(scalars_), updating_});
  optimizer_.update_round(state_, round, scalars);
  if (round + 1 == rounds_.size()) optimizer_.end_rounds();
}

// A round whose gradients are not all finite updates nothing, and neither do later ones.
void BackwardUpdates::read() {
  if (rounds_.empty()) return;
  const auto checks = copy_to_host<double>(state_.queue(), checks_);
  for (const BackwardRound& round : rounds_) {
    for (const int parameter : round.parameters) {
      const auto check = checks.begin() + rows_[static_cast<std::size_t>(parameter)] * kCheckRow;
      if (!std::isfinite(check[kSquares]) && !bad_)
        bad_ = BadGradient{parameter,
                           {static_cast<std::int64_t>(check[kBadElement]),
                            static_cast<float>(check[kBadElement + 1])}};
      optimizer_.measured(parameter, check[kSquares]);
    }
    if (bad_) return;
    num_updated_ += static_cast<int>(round.parameters.size());
  }
}

std::size_t BackwardUpdates::bytes(const GradientLists& lists, const decoder::ParameterTable& table,
                                   const Backend& backend) {
  if (lists.rounds.empty()) return 0;
  BufferParts parts;
  add_parts(parts, lists.num_shared());
  std::size_t most = 0;
  const auto add = [&](Graph graph) {
    most = std::max(most, program::compile(std::move(graph), backend)->arena_bytes());
  };
  std::set<std::vector<std::int64_t>> sizes;
  for (const std::vector<int>& round : lists.rounds) sizes.insert(elements_of(round, table));
  constexpr double kSomeClipNorm = 1;  // graphs that clip are the larger ones
  for (const std::vector<std::int64_t>& elements : sizes) {
    add(measure_graph(elements));
    add(scalars_graph(std::ssize(elements), false, kSomeClipNorm));
  }
  return parts.bytes() + most;
}

}  // namespace lamina::train
