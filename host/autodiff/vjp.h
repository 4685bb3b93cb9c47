// Reverse-mode differentiation: appends to a graph the nodes that compute cotangents.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace lamina::autodiff {

// Which tagged values of a forward pass are kept for the backward pass; the rest is computed again.
// Called with a value's tag, "" for untagged values.
using SavePolicy = std::function<bool(std::string_view tag)>;

// Keeps every value that the backward pass wants: nothing is computed twice.
SavePolicy save_everything();

// Cotangents of `wanted` given those of `results` (`seeds`, one each; null seeds count as zero).
// Null where nothing flows. A cotangent may have a wider dtype than its value (gradients of bf16
// parameters are f32). Scans are differentiated through their bodies, whose forward values are kept
// as `save` says. Afterwards, outputs of the graph that a gradient node also computes (losses) are
// taken from there.
//
// Throws InternalError naming an op that has neither vjp nor lower.
std::vector<Tensor> vjp(Graph& graph, std::span<const Tensor> results,
                        std::span<const Tensor> seeds, std::span<const Tensor> wanted,
                        const SavePolicy& save);

}  // namespace lamina::autodiff
