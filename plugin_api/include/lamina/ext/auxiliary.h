/* Outputs of layers to training beside the activations: auxiliary losses, metrics, and changes of
 * parameters without a gradient. The host interface LAMINA_AUXILIARY_ID. */
#ifndef LAMINA_EXT_AUXILIARY_H
#define LAMINA_EXT_AUXILIARY_H

#include "lamina/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LAMINA_AUXILIARY_ID "lamina.auxiliary/1"

/* An auxiliary loss or metric of the layer, by name. All layers that add a name must agree in the
 * other fields. Losses are averaged over microbatches, multiplied by their weight and added to the
 * objective. */
typedef struct lamina_auxiliary {
  uint32_t size, kind; /* LAMINA_AUXILIARY_* */
  lamina_str_t name;
  lamina_tensor_t value;   /* for a loss, a scalar unless `other` is set */
  lamina_str_t weight_key; /* config key that multiplies a loss; empty = 1 */
  /* LAMINA_REDUCE_*. A loss is reduced over the layers that add it, by SUM or MEAN. A metric is
   * reported per layer and reduced over microbatches. */
  uint32_t reduce, _pad0;
  /* For a loss that is a product of means over all layers: value and other have the same shape, and
   * the loss is sum(mean over layers of value * mean over layers of other). 0 = none. */
  lamina_tensor_t other;
} lamina_auxiliary_t;

#define LAMINA_AUXILIARY_LOSS 1u
#define LAMINA_AUXILIARY_METRIC 2u
#define LAMINA_REDUCE_SUM 0u
#define LAMINA_REDUCE_MEAN 1u
#define LAMINA_REDUCE_MAX 2u

/* A change of a parameter that does not come from a gradient. It is made after the optimizer's
 * step, with the mean of value over microbatches. */
typedef struct lamina_update {
  uint32_t size, rule; /* LAMINA_UPDATE_* */
  lamina_str_t param;  /* full name inside the block */
  lamina_tensor_t value;
  lamina_str_t rate_key; /* config key of the rate */
} lamina_update_t;

#define LAMINA_UPDATE_ADD 1u       /* p += rate * value */
#define LAMINA_UPDATE_SIGN_STEP 2u /* p += rate * sign(value) */
#define LAMINA_UPDATE_ASSIGN 3u    /* p = value */

/* Both [trace]. In phases other than training the arguments are checked and have no effect. */
typedef struct lamina_auxiliary_api {
  uint32_t size, _pad0;
  lamina_status_t (*add)(lamina_build_t* build, const lamina_auxiliary_t* value,
                         const lamina_where_t* at);
  lamina_status_t (*update)(lamina_build_t* build, const lamina_update_t* update,
                            const lamina_where_t* at);
} lamina_auxiliary_api_t;

#define LAMINA_AUXILIARY_GROWABLE(X) \
  X(lamina_auxiliary_t, 64)          \
  X(lamina_update_t, 48)             \
  X(lamina_auxiliary_api_t, 24)
LAMINA_AUXILIARY_GROWABLE(LAMINA_LEAST_SIZE)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LAMINA_EXT_AUXILIARY_H */
