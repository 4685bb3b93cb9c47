// The kernels of the CPU backend, one table per family. An op that is in none of them is lowered;
// constant, iota, fused_map and all elementwise ops share elementwise_kernels().
#pragma once

#include <span>
#include <string_view>

#include "runtime/kernel.h"

namespace lamina::cpu {

struct OpKernels {
  std::string_view op;
  std::span<const KernelChoice> choices;  // best first
};
using KernelTable = std::span<const OpKernels>;

std::span<const KernelChoice> elementwise_kernels();
// Of every op that a plugin brings.
std::span<const KernelChoice> custom_kernels();

KernelTable attention_kernels();
KernelTable compressed_kernels();
KernelTable conv_kernels();
KernelTable cross_entropy_kernels();
KernelTable delta_rule_kernels();
KernelTable embedding_kernels();
KernelTable experts_kernels();
KernelTable gemm_kernels();
KernelTable grouped_kernels();
KernelTable index_kernels();
KernelTable latent_kernels();
KernelTable layout_kernels();
KernelTable linear_scan_kernels();
KernelTable matrix_scan_kernels();
KernelTable ngram_kernels();
KernelTable norm_kernels();
KernelTable optimizer_kernels();
KernelTable order_kernels();
KernelTable random_kernels();
KernelTable reduce_kernels();
KernelTable rope_kernels();
KernelTable sinkhorn_kernels();
KernelTable softmax_kernels();
KernelTable window_kernels();

}  // namespace lamina::cpu
