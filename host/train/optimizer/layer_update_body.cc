#include "train/optimizer/layer_update_body.h"

#include <algorithm>
#include <utility>

#include "graph/rewrite.h"
#include "graph/scan_shape.h"
#include "ops/tensor.h"
#include "train/optimizer/update_check.h"

namespace lamina::train {
namespace {

// Returns the smallest number of equal parts with at most kMaxPiece elements; 1 if they would be
// many.
std::int64_t num_pieces(std::int64_t elements) {
  constexpr std::int64_t kMany = 4096;
  for (std::int64_t pieces = 1; pieces <= kMany; ++pieces)
    if (elements % pieces == 0 && elements / pieces <= kMaxPiece) return pieces;
  return 1;
}

// Returns nothing if the update needs parts of different kinds: of 8-bit moments whose last block
// is not full.
std::optional<LayerUpdate> update_of(const decoder::Parameter& p,
                                     const config::OptimizerSection& config, bool copy) {
  LayerUpdate out{.copy = copy};
  if (is_fused(rule_of(p, config), config)) {
    out.fused = fused_kind(p, config, 0, copy);
    return out;
  }
  const std::vector<UpdatePiece> pieces = update_pieces(p, config, copy);
  if (pieces.empty()) return {};
  out.kind = pieces.front().kind;
  out.kind.skips = true;
  if (!is_elementwise(out.kind.rule)) return out;
  const std::int64_t n = p.num_elements(), row = config.moments == "8bit" ? out.kind.width : n;
  if (n % row != 0) return {};
  if (row == n) {
    out.pieces = num_pieces(n);
    out.kind.width = n / out.pieces;
  } else {
    out.pieces = num_pieces(n);
    if (n / out.pieces % row != 0) out.pieces = 1;
    out.kind.rows = n / out.pieces / row;
  }
  return out;
}

class UpdatedBody {
 public:
  UpdatedBody(const Node& scan, const config::OptimizerSection& config, double clip_norm)
      : from_(*scan.body()),
        copy_(from_, out_),
        shape_(scan_shape(scan)),
        config_(config),
        clip_norm_(clip_norm) {
    for (std::size_t i = 0; i < from_.inputs().size(); ++i) {
      if (i == shape_.first_x()) add_updating();
      const GraphInput& input = from_.inputs()[i];
      copy_.set(input.value, out_.add_input(input.name, from_.type(input.value)));
    }
    if (from_.inputs().size() == shape_.first_x()) add_updating();
    for (const Node& node : from_.nodes()) copy_.node(node);
  }

  void add(const BodyUpdate& of) {
    const LayerUpdate& update = of.update;
    const Tensor g = copy_.get(from_.outputs()[of.result].value);
    const Tensor numbers = input({DType::f64, {static_cast<std::int64_t>(kNumScalars)}, {}});
    const Graph graph = graph_of(update, config_);
    const Tensor used = of.operand >= 0
                            ? copy_.get(from_.inputs()[static_cast<std::size_t>(of.operand)].value)
                            : input(g.type().with(update.copy ? DType::bf16 : DType::f32));
    std::vector<Tensor> changed{update.copy ? input({DType::f32, g.shape(), {}}) : used};
    for (std::size_t i = 2; i + 1 < graph.inputs().size(); ++i) {
      const Type& type = graph.type(graph.inputs()[i].value);
      changed.push_back(input(type.with(type.shape.with_leading(update.pieces))));
    }
    if (update.copy) changed.push_back(used);

    const UpdateCheck check =
        check_update(g, ops::sum_of_squares(g), numbers, updating_, clip_norm_);
    results_.push_back({check.result, -1});
    updating_ = check.updating;
    add_update(graph, update.pieces, check.scalars, g, changed);
  }

  Graph take() {
    for (std::size_t o = 0; o < shape_.carries; ++o) add_old_output(o);
    out_.add_output("updating", updating_);
    for (std::size_t o = shape_.carries; o < from_.outputs().size(); ++o) add_old_output(o);
    for (const Result& result : results_) out_.add_output("updated", result.value, result.over);
    return std::move(out_);
  }

 private:
  struct Result {
    Tensor value;
    int over;  // the input that it overwrites, or -1
  };

  Tensor input(Type type) { return out_.add_input("of an update", std::move(type)); }
  void add_updating() { updating_ = out_.add_input("updating", {DType::f64, {}, {}}); }

  void add_old_output(std::size_t o) {
    const GraphOutput& output = from_.outputs()[o];
    const int alias = output.alias_input;
    out_.add_output(output.name, copy_.get(output.value),
                    alias >= static_cast<int>(shape_.first_x()) ? alias + 1 : alias);
  }

  // Runs the graph of an update over equal pieces of the tensors: it changes `changed` in place.
  void add_update(const Graph& update, std::int64_t pieces, Tensor scalars, Tensor g,
                  const std::vector<Tensor>& changed) {
    const Type& scalar_type = update.type(update.inputs().back().value);
    const bool copy = update.outputs().back().alias_input < 0;
    auto body = std::make_shared<Graph>();
    std::vector<Tensor> operands{ops::slice(scalars, 0, 0, scalar_type.dim(0))}, inner;
    const Tensor inner_scalars = body->add_input("scalars", scalar_type);
    const auto add_x = [&](const Type& type, Tensor outer) {
      operands.push_back(ops::reshape(outer, type.shape.with_leading(pieces)));
      return body->add_input("x", type.with(outer.dtype()));
    };
    const auto type_of = [&](std::size_t i) { return update.type(update.inputs()[i].value); };
    inner.push_back(add_x(type_of(0), changed[0]));
    inner.push_back(add_x(type_of(1), g));
    for (std::size_t i = 2; i + 1 < update.inputs().size(); ++i)
      inner.push_back(add_x(type_of(i), changed[i - 1]));
    if (copy) add_x(type_of(0), changed.back());
    inner.push_back(inner_scalars);
    const std::vector<Tensor> made = inline_graph(update, *body, inner);
    for (std::size_t i = 0; i < made.size(); ++i) {
      const int alias = update.outputs()[i].alias_input;
      body->add_output("updated", made[i],
                       alias >= 0 ? alias + 1 : static_cast<int>(body->inputs().size()) - 1);
    }
    const std::vector<Tensor> updated =
        ops::scan(operands, {.body = body, .times = pieces, .num_consts = 1});
    for (std::size_t i = 0; i < updated.size(); ++i)
      results_.push_back({ops::reshape(updated[i], changed[i].shape()),
                          static_cast<int>(out_.value(changed[i].id).index)});
  }

  const Graph& from_;
  Graph out_;
  Copier copy_;
  ScanShape shape_;
  const config::OptimizerSection& config_;
  double clip_norm_;
  Tensor updating_;
  std::vector<Result> results_;
};

}  // namespace

std::optional<LayerUpdate> common_update(const std::vector<int>& members,
                                         const decoder::ParameterTable& parameters,
                                         const config::OptimizerSection& config, bool copy) {
  const auto first = update_of(parameters[members.front()], config, copy);
  for (const int member : members)
    if (!parameters[member].learns() || update_of(parameters[member], config, copy) != first)
      return {};
  return first;
}

Graph graph_of(const LayerUpdate& update, const config::OptimizerSection& config) {
  return update.fused ? fused_adamw_graph({&*update.fused, 1}, config)
                      : update_graph(update.kind, config);
}

std::shared_ptr<const Graph> body_with_updates(const Node& scan,
                                               std::span<const BodyUpdate> updates,
                                               const config::OptimizerSection& config,
                                               double clip_norm) {
  UpdatedBody body(scan, config, clip_norm);
  for (const BodyUpdate& update : updates) body.add(update);
  return std::make_shared<const Graph>(body.take());
}

}  // namespace lamina::train
