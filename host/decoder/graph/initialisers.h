// The initial values of parameters that the key `initializer` changes from the family's. Private to
// decoder.
#pragma once

#include "decoder/graph/model_parts.h"

namespace lamina::decoder {

// With `initializer` = "maxtext" every parameter that the family draws from a normal distribution
// starts as in MaxText (layers/initializers.py and its users there). n(f) is normal with variance 1
// / f, t(f, s) is normal with variance s / f, truncated at two deviations of the full distribution;
// s is dense_init_scale.
//
//   tables of tokens and positions      normal, deviation 1
//   other tables                        n(width of a row)
//   attention [out, in]                 n(in)
//   router [E, in]                      t(in, s)
//   experts [E, out, in]                t(E out, s): MaxText counts E as a dim of the inputs
//   other matrices in a layer with a    t(in, s), like shared experts
//     router, except D x D ones
//   other matrices, the head            t(in, 1)
//   convolution over time [C, K]        t(K, 1)
//   sinks                               0
//
// Other parameters of the family (gains, biases, decay rates, hyper-connections) are unchanged.
// MaxText divides fresh queries by sqrt(head width) if its attention does not; our attention always
// does. UserError (exit 2) if `dense_init_scale` is given without effect.
void apply_initializer(ModelParts& parts);

}  // namespace lamina::decoder
