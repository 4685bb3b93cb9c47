// attention of one token per row over decode state, in one launch (one_token.h).
#pragma once

#include <cstddef>

#include "backends/cuda/attention/params.h"
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/stored/rows.h"

namespace lamina::cuda {

// Accepts bf16, causal masks, windows and rings, with sinks and soft caps.
Verdict takes_one_token(const NodeView& n);

class OneTokenRun {
 public:
  OneTokenRun(Context& context, const AttentionParams& params, RowKind kind);
  std::size_t workspace_bytes() const { return bytes_; }
  std::size_t counter_bytes() const { return counter_bytes_; }
  // True if the operands begin at multiples of 16 bytes.
  static bool takes(const AttentionParams& p);
  // `p` has the sizes of the constructor's params, and the addresses, also of the counters.
  // REQUIRES: takes(p).
  void run(const KernelArgs& args, AttentionParams p, std::byte* workspace) const;

 private:
  AttentionSizes size_;
  Function function_;
  int splits_ = 1;
  std::size_t partial_bytes_ = 0, bytes_ = 0, counter_bytes_ = 0;
};

}  // namespace lamina::cuda
