// How parameters start where the key `initializer` says otherwise than the family. Private to
// decoder.
#pragma once

#include "decoder/graph/model_parts.h"

namespace lamina::decoder {

// With `initializer` = "maxtext" every parameter that the family draws from a normal distribution
// starts as MaxText starts it (layers/initializers.py and its users there). n(f) is normal with
// variance 1 / f, t(f, s) is normal with variance s / f, cut so far out that two deviations of the
// uncut one remain; s is dense_init_scale.
//
//   tables of tokens and positions      normal, deviation 1
//   other tables                        n(width of a row)
//   attention [out, in]                 n(in)
//   router [E, in]                      t(in, s)
//   experts [E, out, in]                t(E out, s): MaxText takes E for a dim of the inputs
//   other matrices in a layer with a    t(in, s), as of shared experts
//     router, but for D x D ones
//   other matrices, the head            t(in, 1)
//   convolution over time [C, K]        t(K, 1)
//   sinks                               0
//
// What the family starts otherwise (gains, biases, decay rates, hyper-connections) stays. Where
// MaxText divides fresh queries by sqrt(head width), its attention does not: ours always does.
// UserError (exit 2) where `dense_init_scale` is given and would have no effect.
void apply_initializer(ModelParts& parts);

}  // namespace lamina::decoder
