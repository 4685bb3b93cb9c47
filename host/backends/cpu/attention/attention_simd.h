// The functions of one instruction set for attention.cc. Private to attention*.cc.
#pragma once

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/latent.h"

namespace lamina::cpu {

// `forward` accepts any rows, with or without a cache; `decode` is faster for the few rows that
// `decodes` accepts.
struct AttentionFunctions {
  std::int64_t (*forward_workspace_bytes)(const AttentionSpec&, bool cached);
  void (*forward)(const AttentionSpec&, const AttentionForwardArgs&, const AttentionCache*,
                  std::byte* workspace);
  bool (*decodes)(const AttentionSpec&);
  std::int64_t (*decode_workspace_bytes)(const AttentionSpec&);
  void (*decode)(const AttentionSpec&, const AttentionForwardArgs&, const AttentionCache&,
                 std::byte* workspace);
  std::int64_t (*backward_workspace_bytes)(const AttentionSpec&);
  void (*backward)(const AttentionSpec&, const AttentionBackwardArgs&, std::byte* workspace);
  std::int64_t (*latent_workspace_bytes)(const LatentSpec&);
  void (*latent)(const LatentSpec&, const LatentArgs&, std::byte* workspace);
  std::int64_t (*index_workspace_bytes)(const IndexSpec&);
  void (*index)(const IndexSpec&, const IndexArgs&, std::byte* workspace);
  std::int64_t (*index_grad_workspace_bytes)(const IndexSpec&);
  void (*index_grad)(const IndexSpec&, const IndexGradArgs&, std::byte* workspace);
  std::int64_t (*mass_workspace_bytes)(const MassSpec&);
  void (*mass)(const MassSpec&, const MassArgs&, std::byte* workspace);
};

struct AttentionTable {
  AttentionFunctions f32;
  AttentionFunctions bf16;             // widened to f32
  AttentionFunctions bf16_pairs = {};  // products by vdpbf16ps: for avx512_bf16 only

  static const AttentionTable avx512, avx2, portable;
};

}  // namespace lamina::cpu
