/* Layers that share with an earlier layer: its keys and values (YOCO; Gemma 3n), or its parameters
 * (ALBERT, looped transformers). The host interface LAMINA_LAYER_SHARING_ID. */
#ifndef LAMINA_EXT_LAYER_SHARING_H
#define LAMINA_EXT_LAYER_SHARING_H

#include "lamina/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LAMINA_LAYER_SHARING_ID "lamina.layer_sharing/1"

/* Both functions apply to the layers at `position` in the unit of the last segment, in each of its
 * repetitions. `donor` and `owner` are global indices of an earlier layer that does not itself
 * share in the same way. [config: plan] */
typedef struct lamina_layer_sharing_api {
  uint32_t size, _pad0;
  /* The layers read the state of layer `donor`. They emit attention without k and v; the host adds
   * k and v of the donor, which must have exactly one attention with a kv state. */
  lamina_status_t (*read_from)(lamina_reply_t* reply, uint32_t position, uint32_t donor);
  /* The layers use the parameters of layer `owner`, which must have every name that they declare,
   * with the same description. They add no parameters to files or to the optimizer; a gradient is
   * the sum over all layers that use the parameter. Blocks that update parameters cannot share
   * them. Parameters with LAMINA_PARAM_UNSHARED are excluded: each layer has its own. */
  lamina_status_t (*params_of)(lamina_reply_t* reply, uint32_t position, uint32_t owner);
} lamina_layer_sharing_api_t;

#define LAMINA_LAYER_SHARING_GROWABLE(X) X(lamina_layer_sharing_api_t, 24)
LAMINA_LAYER_SHARING_GROWABLE(LAMINA_LEAST_SIZE)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LAMINA_EXT_LAYER_SHARING_H */
