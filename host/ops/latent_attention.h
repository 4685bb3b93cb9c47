// Common parts of latent attention in training and decoding: its sizes, and the keys and values
// that are projected from latents.
#pragma once

#include "ops/op.h"

namespace lamina::ops {

// REQUIRES for all: inputs 0 to 3 are q[B, T, N, Hn + Hr], latent[B, S, R], k_rope[B, S, Hr] and
// w_kv[N (Hn + Hv), R].

// Returns the type of y[B, T, N, Hv]; refuses inputs that do not match.
Type infer_latent_attention(const Call& c);

// k[B, S, N, Hn + Hr] and v[B, S, N, Hv]: products of the latents, with k_rope for every head.
struct ExpandedLatent {
  Tensor k, v;
};
ExpandedLatent expand_latent(const LowerCall& c);

// Returns the attribute, or 1 / sqrt(width of q).
double latent_scale(const LowerCall& c);

// Products of latent attention, with or without decode state. Either keys and values of a head are
// computed from the latents once (reading a prompt), or the query and the result are projected into
// the latent space (decoding), whichever is less.
double latent_attention_flops(const NodeView& n, const WorkContext& work);

}  // namespace lamina::ops
