// What latent attention has in training and in decoding: its sizes, and the keys and values that
// latents stand for.
#pragma once

#include "ops/op.h"

namespace lamina::ops {

// REQUIRES for all: inputs 0 to 3 are q[B, T, N, Hn + Hr], latent[B, S, R], k_rope[B, S, Hr] and
// w_kv[N (Hn + Hv), R].

// Refuses inputs that do not go together; the type of y[B, T, N, Hv].
Type infer_latent_attention(const Call& c);

// k[B, S, N, Hn + Hr] and v[B, S, N, Hv]: products of the latents, and k_rope for every head.
struct ExpandedLatent {
  Tensor k, v;
};
ExpandedLatent expand_latent(const LowerCall& c);

// The attribute, or 1 / sqrt(width of q).
double latent_scale(const LowerCall& c);

// Products of latent attention, over decode state or not: keys and values of a head may be made of
// the latents once (reading a prompt), or the query and the result may be moved into the space of
// the latents (decoding), whichever is less.
double latent_attention_flops(const NodeView& n, const WorkContext& work);

}  // namespace lamina::ops
