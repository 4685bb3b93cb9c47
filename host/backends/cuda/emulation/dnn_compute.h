// Graphs of the fake cuDNN: tensors of four dims and operations on them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "backends/cuda/dnn/api.h"

namespace lamina::cuda::emulation {

using DnnDims = std::array<std::int64_t, 4>;

struct DnnTensor {
  std::int64_t id = 0;
  dnn::DnnType type = dnn::DnnType::f32;
  DnnDims dims = {}, strides = {};
  std::int64_t alignment = 1;
  bool is_virtual = false, by_value = false;

  std::int64_t num_elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  // Elements from the first to the end of the last one in memory.
  std::int64_t extent() const;
};

struct DnnOperation {
  enum class Kind { matmul, pointwise, reduction, reshape } kind = Kind::pointwise;
  // Ids of tensors; 0 for none. Pointwise: y = mode(x, b, t). matmul: y = x b.
  std::int64_t x = 0, b = 0, t = 0, y = 0;
  std::int64_t m_limit = 0, n_limit = 0, k_limit = 0;
  bool pads = false;  // a product is 0 outside of its limits, not undefined
  dnn::PointwiseMode mode = dnn::PointwiseMode::add;
  std::int64_t axis = 0;
  dnn::ReductionOperator reduction = dnn::ReductionOperator::add;
};

struct DnnGraph {
  std::map<std::int64_t, DnnTensor> tensors;  // by id
  std::vector<DnnOperation> operations;       // producers first
};

std::int64_t bytes_of(dnn::DnnType type);

// Computes a graph. `places`: addresses of tensors in memory and of numbers, by id. Sums over k
// begin at element `first_k`: an engine without a fixed order begins elsewhere in each run.
void compute(const DnnGraph& graph, const std::map<std::int64_t, std::byte*>& places,
             std::int64_t first_k);

}  // namespace lamina::cuda::emulation
