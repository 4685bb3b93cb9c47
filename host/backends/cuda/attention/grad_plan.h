// A run of attention_grad on the GPU, prepared from the sizes of a node.
#pragma once

#include "backends/cuda/attention/plan.h"

namespace lamina::cuda {

// False if the tiles of no form have room.
bool grad_fits(DType dtype, const AttentionSizes& size);

class AttentionGradRun {
 public:
  struct Options {
    bool by_ids = false, by_mask = false, slopes = false, bias = false;
  };
  AttentionGradRun(Context& context, DType dtype, const AttentionGradParams& params,
                   const Options& options);
  std::size_t workspace_bytes() const { return bytes_; }
  // `p` has the sizes of the constructor's params, and the addresses.
  void run(const KernelArgs& args, const AttentionGradParams& p, std::byte* workspace) const;

 private:
  // One walk over all pairs: its tiles, and the kernel.
  struct Pass {
    Pass(Context& context, const AttentionSizes& divided, const Options& options, bool by_head,
         Function f, TileForm form);
    AttentionSizes size;
    TileMarks marks;
    Function function;
    TileForm form;
    int stages = 1;
  };
  void run_pass(const KernelArgs& args, const Pass& pass, AttentionGradParams p,
                std::int64_t own_tiles, std::byte* marks) const;
  void run_bias(const KernelArgs& args, AttentionGradParams p, std::byte* partial,
                std::byte* marks) const;

  static Pass make_pass(Context& context, DType dtype, const AttentionGradParams& params,
                        const Options& options, std::string_view part);

  Pass rows_, keys_, bias_;
  bool has_slopes_, has_bias_;
  Function dots_, sinks_, sum_slopes_, sum_bias_;
  std::size_t stat_bytes_ = 0, slopes_bytes_ = 0, table_bytes_ = 0, marks_bytes_ = 0, bytes_ = 0;
};

}  // namespace lamina::cuda
