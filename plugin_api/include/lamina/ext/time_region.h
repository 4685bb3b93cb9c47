/* Custom recurrences: a body of ordinary ops that runs token by token. The host interface
 * LAMINA_TIME_REGION_ID. */
#ifndef LAMINA_EXT_TIME_REGION_H
#define LAMINA_EXT_TIME_REGION_H

#include "lamina/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LAMINA_TIME_REGION_ID "lamina.time_region/1"

/* The ops between begin() and end() are the body. It maps carries and the inputs of one token to
 * the carries after the token and the results of the token. The host runs it for each token of a
 * row in turn: in training as a scan with its gradient, while decoding from the decode states.
 *
 * A carry starts as zeros in every document. Its state has kind CUSTOM and the carry's dims without
 * the first, B. It is f32 unless the state's dtype says otherwise, and has the same type after each
 * token. A state can be used in one region only.
 *
 * The body may use all ops except those with decode state, random ops and other regions, and may
 * declare parameters. It may read outside values that do not depend on tokens; per-token values
 * must be inputs of the region. Losses, metrics and updates must be added outside, and results used
 * outside; values of the body are valid in the body only.
 *
 * Rollback: a custom state cannot be truncated at a token as keys and values can. A host that takes
 * tokens back copies the states before the call and continues from the copy. Therefore a body must
 * compute from its carries, its inputs and the model alone, and must remember nothing else.
 */
typedef struct lamina_time_region {
  uint32_t size, _pad0;
  lamina_span_t states;     /* lamina_state_t, one per carry */
  lamina_span_t inputs;     /* lamina_tensor_t, [B, T, ...]; at least one */
  lamina_tensor_t* carries; /* written: one per state, [B, dims...] */
  lamina_tensor_t* tokens;  /* written: one per input, [B, ...] */
} lamina_time_region_t;

typedef struct lamina_time_results {
  uint32_t size, _pad0;
  lamina_span_t carries;    /* lamina_tensor_t, one per state */
  lamina_span_t results;    /* lamina_tensor_t, [B, ...] */
  lamina_tensor_t* outputs; /* written: one per result, [B, T, ...] */
} lamina_time_results_t;

/* Both [trace]; each begin() has its end() in the same build. */
typedef struct lamina_time_region_api {
  uint32_t size, _pad0;
  lamina_status_t (*begin)(lamina_build_t* build, const lamina_time_region_t* region,
                           const lamina_where_t* at);
  lamina_status_t (*end)(lamina_build_t* build, const lamina_time_results_t* results,
                         const lamina_where_t* at);
} lamina_time_region_api_t;

#define LAMINA_TIME_REGION_GROWABLE(X) \
  X(lamina_time_region_t, 56)          \
  X(lamina_time_results_t, 48)         \
  X(lamina_time_region_api_t, 24)
LAMINA_TIME_REGION_GROWABLE(LAMINA_LEAST_SIZE)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LAMINA_EXT_TIME_REGION_H */
