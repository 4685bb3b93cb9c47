/* Multi-token prediction: the host interface LAMINA_MTP_ID (DeepSeek-V3 report, section 2.2). */
#ifndef LAMINA_EXT_MTP_H
#define LAMINA_EXT_MTP_H

#include "lamina/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LAMINA_MTP_ID "lamina.mtp/1"

/* `depth` blocks after the stack, each predicting one token further. Block j reads carry_in[0] =
 * hidden state h[j - 1] (h[-1] is the stack's x) and carry_in[1] = the embedding of the token 1 + j
 * places ahead in the same document. It writes carry_out[0] = h[j] and carry_out[1] = the head's
 * input for the token after that one. Embedding and head are the model's. In training, the sum over
 * j of weight_j * (the sum of block j's cross-entropies), divided by the number of counted labels
 * of all blocks, is added to the loss; other phases skip the blocks. The parameters are called
 * "mtp.<j>.<name>", j from 0; in the tensor map {L} is num_hidden_layers + j and {P} is j. */
typedef struct lamina_mtp {
  uint32_t size, flags;    /* LAMINA_MTP_* */
  uint32_t block, depth;   /* block: the id of a lamina_block_t */
  lamina_span_t overrides; /* lamina_setting_t */
  lamina_str_t weight_key; /* a number, or a list with one per depth; empty = 1 */
} lamina_mtp_t;

#define LAMINA_MTP_NORMED_HIDDEN 1u     /* h[-1] is the stack's x after the final norm */
#define LAMINA_MTP_SHIFTED_POSITIONS 2u /* block j sees the positions of its input tokens */
#define LAMINA_MTP_FINAL_NORM 4u        /* the model's final norm is applied to carry_out[1] */
/* A target counts if it is in the document of the token before it, not of the query token. */
#define LAMINA_MTP_CHAINED 8u
/* Since minor 7: h is carry 0 as layers pass it on, and h[-1] is the last layer's carry 0; the exit
 * block does not run on it. For residual streams. Cannot be combined with
 * LAMINA_MTP_NORMED_HIDDEN. */
#define LAMINA_MTP_CARRIES 16u

typedef struct lamina_mtp_api {
  uint32_t size, _pad0;
  /* Adds multi-token prediction to the model. At most once. [config: options] */
  lamina_status_t (*predict)(lamina_reply_t* reply, const lamina_mtp_t* mtp);
} lamina_mtp_api_t;

#define LAMINA_MTP_GROWABLE(X) \
  X(lamina_mtp_t, 48)          \
  X(lamina_mtp_api_t, 16)
LAMINA_MTP_GROWABLE(LAMINA_LEAST_SIZE)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LAMINA_EXT_MTP_H */
