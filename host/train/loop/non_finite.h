// Finds the op of a training step that first made a value that is not finite.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "decoder/stack/parameter.h"
#include "program/bound_program.h"

namespace lamina::train {

// For messages: NaN without its sign, which has no meaning; any other value.
inline double without_sign_of_nan(double value) {
  return std::isnan(value) ? std::abs(value) : value;
}

// The first NaN or infinity of a tensor, by row-major index.
struct BadElement {
  std::int64_t element = 0;
  float value = 0;
};
std::optional<BadElement> first_non_finite(std::span<const float> values);

// "'norm.weight' is nan at element 3 of [16]"
std::string bad_element_text(const decoder::Parameter& p, const BadElement& bad);

// The first result of an op with a NaN or infinity in it.
struct NonFinite {
  std::string op;            // "linear"
  std::string scope;         // of the block: "attention.wq"; empty outside of blocks
  std::string source;        // "model.cc:37"; empty if the host made the node
  std::int64_t layer = -1;   // -1 outside of layers
  std::string result;        // "f32[4, 24, 16]"
  std::int64_t element = 0;  // the first one that is not finite, row-major
  double value = 0;
  std::int64_t num_bad = 0;  // elements of the result that are not finite

  // "linear in layer 3, attention.wq, built at model.cc:37: element 5 of f32[4, 16] is inf, 2 in
  // all are not finite"
  std::string text() const;
};

// Watches runs of a program, until the first result with a NaN or +inf, or a product with -inf.
// From other ops -inf counts only if none of these comes: masks contain it.
class NonFiniteFinder : public Watcher {
 public:
  // Watches `program` while it lives.
  NonFiniteFinder(program::BoundProgram& program, const decoder::ParameterTable& parameters);
  NonFiniteFinder(const NonFiniteFinder&) = delete;
  NonFiniteFinder& operator=(const NonFiniteFinder&) = delete;
  ~NonFiniteFinder() override;

  bool is_found() const { return found_.has_value(); }
  // Nothing if all results were finite: then the overflow came after the runs of the program.
  std::optional<NonFinite> found() const { return found_ ? found_ : masked_; }

  void enter(const Graph& graph, NodeId scan, std::int64_t element) override;
  void leave() override;
  void ran(const Graph& graph, NodeId node, std::span<const TensorRef> results) override;

 private:
  struct Iteration {
    const Graph* graph;
    NodeId scan;
    std::int64_t element;
  };
  std::int64_t layer_of(const Node& node) const;
  int parameter_at(std::size_t depth, ValueId value) const;

  program::BoundProgram& program_;
  const decoder::ParameterTable& parameters_;
  std::vector<Iteration> iterations_;  // scans that are under way, outermost first
  std::optional<NonFinite> found_, masked_;
};

}  // namespace lamina::train
