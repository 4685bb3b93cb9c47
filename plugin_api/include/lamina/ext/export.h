/* Models that are published in the format of another family: the host interface LAMINA_EXPORT_ID.
 * An export computes the other model's weights from this model's. */
#ifndef LAMINA_EXT_EXPORT_H
#define LAMINA_EXT_EXPORT_H

#include "lamina/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LAMINA_EXPORT_ID "lamina.export/1"

typedef struct lamina_export_api {
  uint32_t size, _pad0;
  /* Exports in the Hugging Face format of `family`, with the values of the keys that both families
   * have. Parameters that this family lacks get the values given to `value`. At most once.
   * [config: options] */
  lamina_status_t (*as)(lamina_reply_t* reply, lamina_str_t family);
  /* Gives the value of parameter `param` of the other family's layer. `param` is the full name
   * inside the block, eg: "attention.wq.weight"; `tensor` must depend on parameters alone.
   * [trace] */
  lamina_status_t (*value)(lamina_build_t* build, lamina_tensor_t tensor, lamina_str_t param,
                           const lamina_where_t* at);
} lamina_export_api_t;

#define LAMINA_EXPORT_GROWABLE(X) X(lamina_export_api_t, 24)
LAMINA_EXPORT_GROWABLE(LAMINA_LEAST_SIZE)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LAMINA_EXT_EXPORT_H */
