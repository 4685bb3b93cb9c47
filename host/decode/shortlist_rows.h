// The shortlists of a batch: nodes of a decode graph that make them, and host memory for them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decode/shortlist.h"
#include "decoder/roles/model_graph.h"
#include "program/bound_program.h"

namespace lamina::decode {

// Adds the shortlists of the logits to a decode graph: inputs and outputs with roles.
void add_shortlists(decoder::ModelGraph& graph, const ShortlistShape& shape);

class ShortlistRows {
 public:
  // REQUIRES: the shape is not whole.
  ShortlistRows(const ShortlistShape& shape, std::int64_t batch, std::int64_t vocab);
  const ShortlistShape& shape() const { return shape_; }

  // Sets the numbers that the lists of the next run depend on: `draws` has one per row.
  void set_draws(double temperature, std::span<const double> draws);
  // Binds the memory of this object.
  void bind(program::BoundProgram& program);
  // Returns the list of a row, valid until the next run.
  Shortlist row(std::int64_t row) const;

 private:
  ShortlistShape shape_;
  std::int64_t vocab_, width_;  // width: tokens of a list
  double temperature_ = 0;
  std::vector<double> draws_, before_, weight_;
  std::vector<float> logits_, largest_;
  std::vector<std::int32_t> ids_;  // of likeliest tokens; of tokens at the draw the first
};

}  // namespace lamina::decode
