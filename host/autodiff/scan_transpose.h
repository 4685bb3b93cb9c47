// The gradient of a scan: a scan over the transposed body, in reverse order.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "autodiff/vjp.h"

namespace lamina::autodiff {

// Differentiates the scans of a graph. With the body f(consts, c, x) -> (c', y) and residuals r,
// the transpose is the body
//   (dc', dconsts; x, r, dy) -> (dc, dconsts + ..., dx)
// scanned in the opposite order; values of the forward pass that r does not contain are recomputed
// in it. A recomputed value has the same bits, so the policy never changes a result. The sums of
// dconsts are in sum_dtype(), as they may have one term per token.
//
// A body that several scans share is differentiated once, and its transpose is also shared.
class ScanTransposer {
 public:
  explicit ScanTransposer(const SavePolicy& save);
  ~ScanTransposer();

  // Differentiates scan node `scan` of `graph`. `cotangents` has one entry per result of the scan
  // (null: zero), `wanted` one flag per operand. Adds results to the scan's body: the values that
  // its transpose needs and the policy keeps, stacked over layers. Returns one cotangent per
  // operand, null if nothing flows or it is not wanted.
  std::vector<Tensor> transpose(Graph& graph, NodeId scan, std::span<const Tensor> cotangents,
                                const std::vector<bool>& wanted);

 private:
  struct Known;
  const SavePolicy& save_;
  std::unique_ptr<Known> known_;
};

}  // namespace lamina::autodiff
