// Builds a TensorMap: published names and views of each parameter, from the rows of a family's map.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "weights/match/tensor_map.h"

namespace lamina::weights {

// A row of the map expanded for one parameter: its tensors and the part of each that is ours.
struct ExpandedRow {
  struct Tensor {
    std::string name;  // as in the family's map
    Shape shape;
    StridedView view;
  };
  const registry::TensorRow* row = nullptr;
  std::vector<Tensor> tensors;  // one, or one per element of our first dim
  double factor = 1, shift = 0;
};

class MapBuilder {
 public:
  explicit MapBuilder(const decoder::Model& model);

  // Returns the rows of a parameter, in the order of the map; empty if the family does not publish
  // it. The last one makes it a part of a fused tensor, if possible.
  const std::vector<const registry::TensorRow*>& rows_of(int parameter) const;
  // Returns that last row; null if there is none.
  const registry::TensorRow* fused_row_of(int parameter) const {
    return fused_[static_cast<std::size_t>(parameter)];
  }
  // Throws PluginError if the row's transforms cannot produce the parameter's shape.
  ExpandedRow expand(int parameter, const registry::TensorRow& row) const;

  // Adds the tensors of `row` under `names`. REQUIRES: parameters are added in ascending order.
  void add(int parameter, const ExpandedRow& row, const std::vector<std::string>& names);
  // Adds the parameter as a tensor with our name and form.
  void add_own(int parameter);
  TensorMap finish(bool own_names);

 private:
  void check_shares() const;
  // Returns whether no other layer has a parameter of its block and name.
  bool is_only_one(const decoder::Parameter& parameter) const;
  int tensor_index(const std::string& name, const Shape& shape);
  const registry::TensorRow& host_row(const decoder::Parameter& parameter);
  void add_fused_rows();
  const registry::TensorRow& beside_row(const decoder::Parameter& parameter,
                                        const registry::TensorRow& beside);
  const registry::TensorRow& adapter_row(const decoder::Parameter& parameter,
                                         const registry::TensorRow* of);
  const registry::TensorRow& own_row(const decoder::Parameter& parameter);
  std::pair<std::int64_t, std::int64_t> extent_of_parts(int parameter,
                                                        const registry::TensorRow& row) const;

  const decoder::Model& model_;
  std::vector<std::vector<const registry::TensorRow*>> rows_;  // per parameter
  std::vector<const registry::TensorRow*> fused_;              // per parameter, or null
  std::deque<registry::TensorRow> host_rows_;  // for parameters without a row of the family
  std::unordered_map<std::int64_t, std::vector<int>> of_layer_;
  std::unordered_map<std::string, int> by_name_;
  TensorMap map_;
};

}  // namespace lamina::weights
