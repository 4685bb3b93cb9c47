// The graph of a whole model while it is built: its inputs and outputs with their roles. Private to
// decoder.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "decoder/graph/model_parts.h"
#include "decoder/roles/roles.h"
#include "ops/tensor.h"

namespace lamina::decoder {

class GraphBuilder {
 public:
  // REQUIRES: both outlive it.
  GraphBuilder(const ModelParts& parts, const TracePhase& phase) : parts_(parts), phase_(phase) {}

  ModelGraph& out() { return out_; }
  Graph& graph() { return out_.graph; }
  const TracePhase& phase() const { return phase_; }
  const ModelParts& parts() const { return parts_; }

  // Return inputs of the graph, each added on first use.
  Tensor host_input(Input role);
  Tensor parameter(int index);  // outside the scans
  // Makes `value` the host input of that role.
  void set_host_input(Input role, Tensor value) { host_inputs_[role] = value; }

  // Adds an input; returns it.
  Tensor add_input(std::string name, const Type& type, InputRole role);
  int last_input() const { return static_cast<int>(out_.inputs.size()) - 1; }
  void add_output(std::string name, Tensor value, OutputRole role, int alias = -1);
  // Adds an output without members, under the role's name.
  void add_output(Output role, Tensor value);
  void add_hidden(std::string name, Tensor x, std::vector<std::int64_t> layers, bool stacked);

  // Returns the type in which graphs read a parameter that a block declares so.
  Type param_type(const registry::ParamDesc& desc, const Parameter& parameter) const;
  // Returns an equal body of a scan that was passed before, or `body`. Layers that are unrolled
  // from one segment have equal bodies, which are compiled once if they share one object.
  std::shared_ptr<const Graph> shared_body(std::shared_ptr<const Graph> body);

 private:
  const ModelParts& parts_;
  const TracePhase& phase_;
  ModelGraph out_;
  std::map<Input, Tensor> host_inputs_;
  std::map<int, Tensor> parameters_;
  std::vector<std::shared_ptr<const Graph>> bodies_;
};

}  // namespace lamina::decoder
