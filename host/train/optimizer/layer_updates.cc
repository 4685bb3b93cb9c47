#include "train/optimizer/layer_updates.h"

#include <compare>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "decoder/roles/roles.h"
#include "graph/placement.h"
#include "graph/rewrite.h"
#include "graph/scan_shape.h"
#include "ops/tensor.h"
#include "train/optimizer/layer_gradients.h"
#include "train/optimizer/layer_update_body.h"

namespace lamina::train {
namespace {

using decoder::Input;
using decoder::InputRole;
using decoder::Output;
using decoder::Parameter;

// A gradient, and the tensors of its update.
struct Updated {
  LayerGradient gradient;
  int input = -1;    // of the graph: the parameter
  int operand = -1;  // of the scan: the parameter; -1: the scan does not read it
  LayerUpdate update;
};

struct UpdatedBodyKey {
  std::shared_ptr<const Graph> body;
  std::vector<BodyUpdate> updates;
  friend auto operator<=>(const UpdatedBodyKey&, const UpdatedBodyKey&) = default;
};
// Unrolled layers share one body.
using UpdatedBodies = std::map<UpdatedBodyKey, std::shared_ptr<const Graph>>;

// Copies the whole graph and adds the updates.
class Adder {
 public:
  Adder(decoder::ModelGraph from, const decoder::ParameterTable& parameters,
        const config::OptimizerSection& config, double clip_norm)
      : from_(std::move(from)),
        parameters_(parameters),
        config_(config),
        clip_norm_(clip_norm),
        copy_(from_.graph, out_) {}

  decoder::ModelGraph run() {
    find();
    if (scans_.empty()) return std::move(from_);
    copy_.inputs();
    updating_ = add_input(Input::updating, {DType::f64, {}, {}}, {});
    for (NodeId n = 0; n < from_.graph.nodes().size(); ++n) {
      const Node& node = from_.graph.node(n);
      if (const auto updates = scans_.find(n); updates != scans_.end())
        emit_scan(node, updates->second);
      else
        copy_.node(node);
    }
    const std::vector<GraphOutput> added = out_.outputs();
    out_.set_outputs({});
    copy_.outputs();
    for (const GraphOutput& output : added)
      out_.add_output(output.name, out_.tensor(output.value), output.alias_input);
    from_.outputs.insert(from_.outputs.end(), added_outputs_.begin(), added_outputs_.end());
    from_.graph = std::move(out_);
    return std::move(from_);
  }

 private:
  const Type& input_type(int input) const {
    return from_.graph.type(from_.graph.inputs()[static_cast<std::size_t>(input)].value);
  }

  void find() {
    for (LayerGradient& gradient : layer_gradients(from_.graph, from_.inputs, from_.outputs)) {
      Updated of{.input = from_.outputs[gradient.output].input};
      const auto update = common_update(gradient.members, parameters_, config_,
                                        input_type(of.input).dtype != DType::f32);
      if (!update || !find_operand(gradient.scan, of)) continue;
      of.update = *update;
      of.gradient = std::move(gradient);
      scans_[of.gradient.scan].push_back(std::move(of));
    }
  }

  // Finds the operand of the scan that is the parameter. Returns false if there are several, or if
  // it is not a whole parameter per iteration.
  bool find_operand(NodeId scan, Updated& of) const {
    const Node& node = from_.graph.node(scan);
    const auto first_x = static_cast<int>(scan_shape(node).first_x());
    const ValueId parameter = from_.graph.inputs()[static_cast<std::size_t>(of.input)].value;
    for (int i = 0; i < std::ssize(node.inputs); ++i) {
      const ValueId operand = node.inputs[static_cast<std::size_t>(i)];
      if (operand == kNoValue || !is_view_of(operand, parameter)) continue;
      if (of.operand >= 0 || i < first_x ||
          from_.graph.type(operand).num_elements() != input_type(of.input).num_elements())
        return false;
      of.operand = i;
    }
    return true;
  }

  bool is_view_of(ValueId v, ValueId of) const {
    for (;;) {
      if (v == of) return true;
      const Value& value = from_.graph.value(v);
      if (value.node == kNoNode || !from_.graph.node(value.node).op->def->view) return false;
      v = from_.graph.node(value.node).inputs[0];
    }
  }

  Tensor add_input(Input role, Type type, const InputRole& like, int state = 0) {
    from_.inputs.push_back({role, like.members, like.stacked, {}, state});
    const Tensor input = out_.add_input(std::string(role_name(role)), std::move(type));
    if (config_.offload && (role == Input::master || role == Input::optimizer_state))
      place_in_host_memory(out_, input.id);
    return input;
  }

  void emit_scan(const Node& node, const std::vector<Updated>& updates) {
    const ScanShape shape = scan_shape(node);
    UpdatedBodyKey key{node.body(), {}};
    for (const Updated& of : updates)
      key.updates.push_back({of.gradient.result, of.operand, of.update});
    std::shared_ptr<const Graph>& body = bodies_[key];
    if (!body) body = body_with_updates(node, key.updates, config_, clip_norm_);

    std::vector<Tensor> operands = copy_.operands(node);
    operands.insert(operands.begin() + static_cast<std::ptrdiff_t>(shape.first_x()), updating_);
    results_.clear();
    for (const Updated& of : updates) add_operands(of, node.int_attr("times"), operands);
    Node changed = node;
    changed.set_attr("body", body);
    changed.set_attr("num_carries", static_cast<std::int64_t>(shape.carries) + 1);
    const std::vector<Tensor> made = out_.add_node_like(changed, operands);
    updating_ = made[shape.carries];
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      copy_.set(node.outputs[i], made[shape.is_stacked(i) ? i + 1 : i]);
    for (std::size_t i = 0; i < results_.size(); ++i)
      add_result(results_[i], made[node.outputs.size() + 1 + i]);
  }

  // Appends the operands of an update in the order of body_with_updates(), and to results_ the uses
  // of its results.
  void add_operands(const Updated& of, std::int64_t times, std::vector<Tensor>& operands) {
    const InputRole role = from_.inputs[static_cast<std::size_t>(of.input)];
    const Parameter& parameter = parameters_[role.members.front()];
    const auto stacked = [&](const Type& type) {
      return role.stacked ? type.with(type.shape.with_leading(times)) : type;
    };
    const auto add = [&](Tensor input, const Shape& element) {
      operands.push_back(ops::reshape(input, element.with_leading(times)));
    };
    const Shape& shape = parameter.desc.shape;
    const auto next = [&] { return static_cast<int>(from_.inputs.size()); };
    operands.push_back(add_input(Input::update_scalars,
                                 {DType::f64, {times, static_cast<std::int64_t>(kNumScalars)}, {}},
                                 {.role = Input::update_scalars, .members = role.members}));
    results_.push_back({Output::gradient_check, of.input});
    if (of.operand < 0) {
      const ValueId used = from_.graph.inputs()[static_cast<std::size_t>(of.input)].value;
      add(copy_.get(used), shape);
    }
    const int master = of.update.copy ? next() : of.input;
    if (of.update.copy)
      add(add_input(Input::master, stacked({DType::f32, shape, {}}), role), shape);
    results_.push_back({Output::updated, master});

    // States have the shapes of the update's graph, because only scans may read stacked inputs.
    const Graph graph = graph_of(of.update, config_);
    for (std::size_t i = 2; i + 1 < graph.inputs().size(); ++i) {
      const Type& piece = graph.type(graph.inputs()[i].value);
      const Type all = piece.with(piece.shape.with_leading(of.update.pieces));
      results_.push_back({Output::updated, next()});
      add(add_input(Input::optimizer_state, stacked(all), role, static_cast<int>(i) - 2),
          all.shape);
    }
    if (of.update.copy) results_.push_back({Output::updated, of.input});
  }

  struct Result {
    Output role;
    int input;
  };

  void add_result(const Result& result, Tensor value) {
    decoder::OutputRole role{.role = result.role, .input = result.input};
    const bool is_updated = result.role == Output::updated;
    if (is_updated) {
      const GraphInput& over = out_.inputs()[static_cast<std::size_t>(result.input)];
      role.stacked = from_.inputs[static_cast<std::size_t>(result.input)].stacked;
      value = ops::reshape(value, out_.type(over.value).shape);
    }
    added_outputs_.push_back(std::move(role));
    const std::string name = is_updated ? "updated" : "gradient_check";
    out_.add_output(name, value, is_updated ? result.input : -1);
  }

  decoder::ModelGraph from_;
  const decoder::ParameterTable& parameters_;
  const config::OptimizerSection& config_;
  double clip_norm_;
  Graph out_;
  Copier copy_;
  UpdatedBodies bodies_;
  std::map<NodeId, std::vector<Updated>> scans_;
  std::vector<Result> results_;
  std::vector<decoder::OutputRole> added_outputs_;
  Tensor updating_;
};

}  // namespace

decoder::ModelGraph add_layer_updates(decoder::ModelGraph graph,
                                      const decoder::ParameterTable& parameters,
                                      const config::OptimizerSection& config, double clip_norm) {
  return Adder(std::move(graph), parameters, config, clip_norm).run();
}

}  // namespace lamina::train
