// Builds the graph of a whole model from those of its blocks. Private to decoder.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "decoder/block_graph.h"
#include "decoder/model.h"
#include "ops/tensor.h"

namespace lamina::decoder {

std::string_view role_name(Role role);

// Distinct blocks by id and overrides, each traced once in the life of a builder.
class BlockCache {
 public:
  BlockCache(const registry::Family& family, const registry::ModelConfig& config, TracePhase phase)
      : family_(family), config_(config), phase_(phase) {}

  const BlockGraph& get(const registry::PositionSpec& position) {
    for (const auto& [known, graph] : traced_)
      if (known.block == position.block && known.overrides == position.overrides) return *graph;
    auto graph = std::make_unique<BlockGraph>(trace_block(family_, config_, position, phase_));
    traced_.emplace_back(position, std::move(graph));
    return *traced_.back().second;
  }

 private:
  const registry::Family& family_;
  const registry::ModelConfig& config_;
  TracePhase phase_;
  std::vector<std::pair<registry::PositionSpec, std::unique_ptr<BlockGraph>>> traced_;
};

// Builds one graph: embedding, the segments as scans, the final norm.
class Assembler {
 public:
  Assembler(const registry::Family& family, const registry::ModelConfig& config,
            const registry::OptionsSpec& options, const StackPlan& stack,
            const ParameterTable& parameters, TracePhase phase)
      : options_(options),
        stack_(stack),
        parameters_(parameters),
        phase_(phase),
        blocks_(family, config, phase) {}

  ModelGraph& out() { return out_; }
  Graph& graph() { return out_.graph; }

  Tensor host_input(Role role, Type type) {
    auto [at, fresh] = host_inputs_.try_emplace(role);
    if (fresh) {
      at->second = graph().add_input(std::string(role_name(role)), type);
      out_.inputs.push_back({role, {}, false, {}});
    }
    return at->second;
  }
  Tensor host_input(Role role) {
    Shape rows{phase_.batch, phase_.tokens};
    switch (role) {
      case Role::seed:
        return host_input(role, {DType::i64, {2}, {}});
      case Role::start:
        return host_input(role, {DType::i32, {phase_.batch}, {}});
      default:
        return host_input(role, {DType::i32, rows, {}});
    }
  }

  // A parameter outside the layers.
  Tensor parameter(int index) {
    auto [at, fresh] = outside_.try_emplace(index);
    if (fresh) {
      const Parameter& p = parameters_[index];
      at->second = graph().add_input(p.name, param_type(p.desc, p));
      out_.inputs.push_back({Role::parameter, {index}, false, {}});
    }
    return at->second;
  }

  Tensor embedding(int table, int positions_table) {
    Tensor x = ops::call("embedding", {parameter(table), host_input(Role::tokens)});
    x = ops::scale(x, options_.embed.scale);
    if (positions_table >= 0)
      x = x + ops::call("embedding", {parameter(positions_table), host_input(Role::positions)});
    if (options_.embed.positions == registry::Positions::sinusoidal) x = x + sinusoids(x);
    if (phase_.training && options_.embed.dropout > 0)
      x = ops::call("dropout", {x, host_input(Role::seed)}, {{"rate", options_.embed.dropout}});
    return x;
  }

  // concat(sin, cos) of position * 10000^(-i / (D/2 - 1)). Vaswani et al. 2017, section 3.5, with
  // the halves apart.
  Tensor sinusoids(Tensor x) {
    std::int64_t half = x.dim(-1) / 2;
    Tensor index = ops::call_in(graph(), "iota",
                                {{"shape", std::vector<std::int64_t>{1, 1, half}},
                                 {"dtype", std::string("f32")},
                                 {"dim", std::int64_t{2}}});
    Tensor frequency = ops::exp(ops::scale(
        index, -std::log(10000.0) / static_cast<double>(std::max<std::int64_t>(half - 1, 1))));
    Tensor position = ops::reshape(ops::cast(host_input(Role::positions), DType::f32),
                                   {phase_.batch, phase_.tokens, 1});
    Tensor angle = position * frequency;
    Tensor both = ops::call("concat", {ops::call("sin", {angle}), ops::call("cos", {angle})},
                            {{"dim", std::int64_t{2}}});
    return ops::cast(both, x.dtype());
  }

  // Runs the whole stack. With `hidden`, what enters and leaves each layer becomes an output.
  Tensor layers(Tensor x, bool hidden) {
    if (hidden) add_hidden("hidden.embed", x, {-1}, false);
    for (std::size_t s = 0; s < stack_.segments.size(); ++s) x = segment(x, s, hidden);
    return x;
  }

  Tensor final_norm(Tensor x, int weight, int bias) {
    const registry::NormSpec& spec = options_.head.norm;
    if (!spec.op) return x;
    std::vector<Tensor> inputs{x, weight >= 0 ? parameter(weight) : Tensor{}};
    if (bias >= 0) inputs.push_back(parameter(bias));
    std::vector<std::pair<std::string_view, AttrValue>> attrs(spec.attrs.begin(), spec.attrs.end());
    return graph().add_node(*spec.op, inputs, attrs).front();
  }

  void add_output(std::string name, Tensor value, OutputRole role, int alias = -1) {
    graph().add_output(std::move(name), value, alias);
    out_.outputs.push_back(std::move(role));
  }

 private:
  Type param_type(const registry::ParamDesc& desc, const Parameter& p) const {
    Type type{p.used_dtype(phase_.dtype), desc.shape, {}};
    std::copy_n(desc.axes.begin(), std::min<std::size_t>(desc.axes.size(), kMaxDims),
                type.axes.begin());
    return type;
  }

  void add_hidden(std::string name, Tensor x, std::vector<std::int64_t> layers, bool stacked) {
    OutputRole role{Role::hidden, -1, std::move(layers), stacked};
    add_output(std::move(name), x, std::move(role));
  }

  Tensor segment(Tensor x, std::size_t index, bool hidden);

  const registry::OptionsSpec& options_;
  const StackPlan& stack_;
  const ParameterTable& parameters_;
  TracePhase phase_;
  BlockCache blocks_;
  ModelGraph out_;
  std::map<Role, Tensor> host_inputs_;
  std::map<int, Tensor> outside_;
  std::map<std::string, std::shared_ptr<const Graph>> bodies_;  // shared by equal segments
  int next_state_ = 0;
};

}  // namespace lamina::decoder
