// The place of our parameter in MaxText's trees, and the conversion of its values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "decoder/stack/parameter.h"
#include "io/weight_files.h"
#include "support/maxtext_config.h"

namespace lamina::testing {

// The place of a layer: its folder, the text inserted after the first part of names in it, and its
// index in the dims of a stack. Layer -1 is outside of all stacks.
struct MaxTextPlace {
  std::string folder = {};
  std::string suffix = {};
  std::vector<std::int64_t> at = {};
  std::string beside = {};  // in prediction layers: its parameters around the layer
};
MaxTextPlace maxtext_place(std::int64_t layer, std::int64_t num_layers,
                           const MaxTextConfig& config);

// Elements of our parameter from first() on: ours[first() + i] = theirs[index(i)] * factor -
// offset.
class MaxTextTensor {
 public:
  const std::string& name() const { return name_; }
  // The shape of the whole tensor: stacks contain several layers.
  const Shape& shape() const { return shape_; }

  std::int64_t first() const { return first_; }
  std::int64_t num_elements() const { return num_elements_; }
  std::size_t index(std::int64_t i) const;
  float ours(float theirs) const;
  // Converts dL/d(ours) to dL/d(theirs).
  float gradient(float of_ours) const;

 private:
  friend std::vector<MaxTextTensor> maxtext_tensors(const decoder::Parameter&, std::int64_t,
                                                    const MaxTextConfig&, const io::WeightFiles&);
  std::string name_;
  std::int64_t first_ = 0, num_elements_ = 0;
  Shape shape_, ours_;
  bool transposed_ = false;          // [in..., out...] to [out, in]
  std::int64_t outputs_ = 0;         // for a kernel that contains several of ours; 0 = one
  std::int64_t first_output_ = 0;    // first output of ours among them
  std::vector<std::int64_t> place_;  // index of the layer in dims 1, 2, .. of the stack
  double factor_ = 1, offset_ = 0;
};

// Returns the tensors that form a parameter, in order. Throws if no row names it.
std::vector<MaxTextTensor> maxtext_tensors(const decoder::Parameter& parameter,
                                           std::int64_t num_layers, const MaxTextConfig& config,
                                           const io::WeightFiles& files);

}  // namespace lamina::testing
