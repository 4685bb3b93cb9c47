/* A recurrence of one's own: a body of ordinary ops that runs token by token. The host interface
 * LAMINA_TIME_REGION_ID. */
#ifndef LAMINA_EXT_TIME_REGION_H
#define LAMINA_EXT_TIME_REGION_H

#include "lamina/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LAMINA_TIME_REGION_ID "lamina.time_region/1"

/* What is built between begin() and end() is the body: it maps carries and the inputs of one token
 * to the carries after the token and results of the token. The host runs it for each token of a row
 * in turn. In training that is a scan with its gradient; while decoding it goes on from the states.
 *
 * A carry starts as zeros in every document and lives in a state of kind CUSTOM with the carry's
 * dims less the first, B; it is f32 unless the state's dtype says otherwise, and has the same type
 * after each token. Each state is in one region.
 *
 * The body may use any op but those that keep decode state, random ones and other regions, and may
 * declare parameters. It sees values from outside that are not of tokens; what is of tokens is an
 * input of the region. Losses, metrics and updates are added outside; so is every use of a result,
 * and values of the body are valid in the body only.
 *
 * Rollback: a custom state cannot be cut at a token as keys and values can. A host that takes
 * tokens back copies the states before the call and goes on from the copy, so what a body computes
 * follows from its carries, its inputs and the model alone, and a carry is all that it remembers.
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
