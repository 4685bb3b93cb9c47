// The gradient of a scan: a scan over the transposed body, backwards.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "autodiff/vjp.h"

namespace lamina::autodiff {

// Differentiates the scans of a graph. With the body f(consts, c, x) -> (c', y) and residuals r,
// the transpose is the body
//   (dc', dconsts; x, r, dy) -> (dc, dconsts + ..., dx)
// scanned in the opposite order; whatever of the forward pass r does not hold is computed again in
// it. A value computed again has the same bits, so the policy never changes a result.
//
// A body that several scans share is differentiated once, and its transpose is shared too.
class ScanTransposer {
 public:
  explicit ScanTransposer(const SavePolicy& save);
  ~ScanTransposer();

  // Differentiates scan node `scan` of `graph`. `cotangents` has one entry a result of the scan
  // (null: zero), `wanted` one flag an operand. The scan's body is given more results: the values
  // that its transpose needs and the policy keeps, stacked over layers. Returns one cotangent an
  // operand, null where nothing flows or nothing is wanted.
  std::vector<Tensor> transpose(Graph& graph, NodeId scan, std::span<const Tensor> cotangents,
                                const std::vector<bool>& wanted);

 private:
  struct Known;
  const SavePolicy& save_;
  std::unique_ptr<Known> known_;
};

}  // namespace lamina::autodiff
