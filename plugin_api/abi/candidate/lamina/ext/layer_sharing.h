/* Layers that use what is an earlier layer's: its keys and values (YOCO; Gemma 3n), or its
 * parameters (ALBERT, looped transformers). The host interface LAMINA_LAYER_SHARING_ID. */
#ifndef LAMINA_EXT_LAYER_SHARING_H
#define LAMINA_EXT_LAYER_SHARING_H

#include "lamina/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LAMINA_LAYER_SHARING_ID "lamina.layer_sharing/1"

/* Both are about the layers at `position` of the unit of the segment last given, in each of its
 * repetitions, and name the layer with a global index, which comes before them and does not itself
 * use another's in the same way. [config: plan] */
typedef struct lamina_layer_sharing_api {
  uint32_t size, _pad0;
  /* They read the state of layer `donor`. They emit attention without k and v: the host adds those
   * of the donor's one attention with a kv state. */
  lamina_status_t (*read_from)(lamina_reply_t* reply, uint32_t position, uint32_t donor);
  /* Their parameters are those of layer `owner`, which has one of each name that they declare, with
   * the same description. They have none of their own, in files and for the optimizer too, and a
   * gradient is the sum over all layers that use the parameter. Blocks that update parameters
   * cannot share them. */
  lamina_status_t (*params_of)(lamina_reply_t* reply, uint32_t position, uint32_t owner);
} lamina_layer_sharing_api_t;

#define LAMINA_LAYER_SHARING_GROWABLE(X) X(lamina_layer_sharing_api_t, 24)
LAMINA_LAYER_SHARING_GROWABLE(LAMINA_LEAST_SIZE)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LAMINA_EXT_LAYER_SHARING_H */
