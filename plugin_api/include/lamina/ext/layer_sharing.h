/* Layers that read the keys and values of an earlier layer (YOCO; Gemma 3n): the host interface
 * LAMINA_KV_SHARING_ID. */
#ifndef LAMINA_EXT_KV_SHARING_H
#define LAMINA_EXT_KV_SHARING_H

#include "lamina/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LAMINA_KV_SHARING_ID "lamina.kv_sharing/1"

typedef struct lamina_kv_sharing_api {
  uint32_t size, _pad0;
  /* Layers at `position` of the unit of the segment last given, in each of its repetitions, read
   * the layer with the global index `donor`, which comes before them. They emit attention without k
   * and v: the host adds those of the donor's one attention with a kv state. [config: plan] */
  lamina_status_t (*read_from)(lamina_reply_t* reply, uint32_t position, uint32_t donor);
} lamina_kv_sharing_api_t;

#define LAMINA_KV_SHARING_GROWABLE(X) X(lamina_kv_sharing_api_t, 16)
LAMINA_KV_SHARING_GROWABLE(LAMINA_LEAST_SIZE)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LAMINA_EXT_KV_SHARING_H */
