// Kernels of the ops around attention; ops.cc has the table of the family.
#pragma once

#include "backends/cuda/kernel_support.h"

namespace lamina::cuda {

std::span<const KernelChoice> attention_mass_choices();
std::span<const KernelChoice> compressed_attention_step_choices();
std::span<const KernelChoice> index_scores_choices();
std::span<const KernelChoice> index_scores_grad_choices();
std::span<const KernelChoice> index_scores_step_choices();
std::span<const KernelChoice> latent_attention_step_choices();
std::span<const KernelChoice> moba_mask_choices();
std::span<const KernelChoice> top_k_mask_choices();

}  // namespace lamina::cuda
