// Reverse-mode differentiation: appends to a graph the nodes that compute cotangents.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace lamina::autodiff {

// Decides which tagged values of a forward pass are kept for the backward pass; the others are
// recomputed. Called with a value's tag, "" for untagged values.
class SavePolicy {
 public:
  using Choice = std::function<bool(std::string_view tag)>;
  // `offloads`: the kept values that are in host memory between the passes.
  // `offloads_inputs`: also the inputs of layers, which are always kept.
  explicit SavePolicy(Choice keeps, Choice offloads = {}, bool offloads_inputs = false)
      : keeps_(std::move(keeps)),
        offloads_(std::move(offloads)),
        offloads_inputs_(offloads_inputs) {}

  bool operator()(std::string_view tag) const { return keeps_(tag); }
  bool offloads(std::string_view tag) const { return offloads_ && offloads_(tag); }
  bool offloads_inputs() const { return offloads_inputs_; }
  // Keeps the same values, all in the memory of the device.
  SavePolicy on_device() const { return SavePolicy(keeps_); }

 private:
  Choice keeps_, offloads_;
  bool offloads_inputs_;
};

// Keeps every value that the backward pass needs: nothing is computed twice.
SavePolicy save_everything();

// Returns the cotangents of `wanted`, given cotangents of `results` (`seeds`, one each; null means
// zero); null if nothing flows. A cotangent may have a wider dtype than its value (gradients of
// bf16 parameters are f32). Scans are differentiated through their bodies, whose forward values are
// kept according to `save`. Outputs of the graph that a gradient node also computes (losses) are
// then taken from that node.
//
// Throws InternalError for an op that has neither vjp nor lower.
std::vector<Tensor> vjp(Graph& graph, std::span<const Tensor> results,
                        std::span<const Tensor> seeds, std::span<const Tensor> wanted,
                        const SavePolicy& save);

}  // namespace lamina::autodiff
