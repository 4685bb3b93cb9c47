/* Numbers and names that host and plugins agree on. Append-only, like abi.h.
 *
 * Numbers are constants, not enums, so that their width is stated by the fields that hold them.
 */
#ifndef LAMINA_NAMES_H
#define LAMINA_NAMES_H

/* Status codes. */
#define LAMINA_OK 0
#define LAMINA_ERROR_ARGUMENT 1    /* a call broke the contract */
#define LAMINA_ERROR_SHAPE 2       /* sizes that do not fit */
#define LAMINA_ERROR_DTYPE 3
#define LAMINA_ERROR_CONFIG 4      /* a value of a config key */
#define LAMINA_ERROR_UNSUPPORTED 5 /* this host cannot; a newer one might */
#define LAMINA_ERROR_NOT_FOUND 6
#define LAMINA_ERROR_STATE 7       /* decode state used wrongly */
#define LAMINA_ERROR_MEMORY 8
#define LAMINA_ERROR_INTERNAL 9    /* a bug, eg: an exception of an unexpected kind */
#define LAMINA_ERROR_ABI 10        /* versions that do not fit */
#define LAMINA_ERROR_CANCELLED 11
#define LAMINA_ERROR_TRACE 12      /* the trace has failed before; see its first error */

/* Kinds of values. */
#define LAMINA_KIND_INT 1u
#define LAMINA_KIND_FLOAT 2u
#define LAMINA_KIND_BOOL 3u
#define LAMINA_KIND_STRING 4u
#define LAMINA_KIND_INT_LIST 5u
#define LAMINA_KIND_FLOAT_LIST 6u
#define LAMINA_KIND_STRING_LIST 7u

/* Element types. */
#define LAMINA_DTYPE_F32 1u
#define LAMINA_DTYPE_BF16 2u
#define LAMINA_DTYPE_F16 3u
#define LAMINA_DTYPE_F64 4u
#define LAMINA_DTYPE_I32 5u
#define LAMINA_DTYPE_I64 6u
#define LAMINA_DTYPE_BOOL 7u

/* Log severities. */
#define LAMINA_LOG_DEBUG 1
#define LAMINA_LOG_INFO 2
#define LAMINA_LOG_WARNING 3
#define LAMINA_LOG_ERROR 4

/* Flags of a plugin. */
#define LAMINA_PLUGIN_NEVER_UNLOAD 1u

/* Flags of a config key. */
#define LAMINA_KEY_REQUIRED 1u     /* no default, and derive() does not give one */
#define LAMINA_KEY_HF_ONLY 2u      /* allowed in config.json, not in [model]; its value counts */
#define LAMINA_KEY_IGNORED 4u      /* known in config.json, without effect here */
#define LAMINA_KEY_NULL_IS_ZERO 8u /* null in config.json is 0, false or empty, not "absent" */
#define LAMINA_KEY_PER_LAYER 16u   /* a list with one element per layer */
#define LAMINA_KEY_HOT 32u         /* may change when a run resumes; no parameter depends on it */
#define LAMINA_KEY_ABOVE_MIN 64u   /* min itself is not allowed */
#define LAMINA_KEY_BELOW_MAX 128u  /* max itself is not allowed */

/* Keys that every family declares; the host reads them by name. */
#define LAMINA_CONFIG_VOCAB_SIZE "vocab_size"
#define LAMINA_CONFIG_HIDDEN_SIZE "hidden_size"
#define LAMINA_CONFIG_NUM_LAYERS "num_hidden_layers"
/* Optional: the longest sequence that the model was made for, in tokens. */
#define LAMINA_CONFIG_MAX_POSITIONS "max_position_embeddings"

/* Flags of a segment. */
#define LAMINA_SEGMENT_UNROLL 1u /* never scanned */

/* Flags of a norm: by default it has a weight, initialised so that weight + offset is 1. */
#define LAMINA_NORM_BIAS 1u
#define LAMINA_NORM_NO_WEIGHT 2u

/* Positions that the embedding adds. */
#define LAMINA_POSITIONS_NONE 0u
#define LAMINA_POSITIONS_LEARNED 1u
#define LAMINA_POSITIONS_SINUSOIDAL 2u /* concat(sin, cos) of position * 10000^(-i / (D/2 - 1)) */

/* Flags of the head. */
#define LAMINA_HEAD_TIED 1u    /* logits by the embedding table */
#define LAMINA_HEAD_NO_LOSS 2u /* training computes no logits; only auxiliary losses count */

/* Flags of multi-token prediction. */
#define LAMINA_MTP_NORMED_HIDDEN 1u     /* h[-1] is the stack's x after the final norm */
#define LAMINA_MTP_SHIFTED_POSITIONS 2u /* block j sees the positions of its input tokens */
#define LAMINA_MTP_FINAL_NORM 4u        /* carry_out[1] goes through the model's final norm */
/* A target counts if it is in the same document as the token before it (not as the query token). */
#define LAMINA_MTP_CHAINED 8u

/* What a parameter is for. Decides weight decay and precision. */
#define LAMINA_ROLE_WEIGHT 1u    /* a product's matrix, [out, in] */
#define LAMINA_ROLE_BIAS 2u
#define LAMINA_ROLE_NORM 3u      /* a norm's gain */
#define LAMINA_ROLE_EMBEDDING 4u /* a table of rows */
#define LAMINA_ROLE_HEAD 5u
#define LAMINA_ROLE_ROUTER 6u
#define LAMINA_ROLE_SCALAR 7u    /* sinks, decay rates, layer scales */
#define LAMINA_ROLE_CONV 8u

/* Initialisers, with init_a and init_b. */
#define LAMINA_INIT_ZEROS 0u
#define LAMINA_INIT_ONES 1u
#define LAMINA_INIT_CONSTANT 2u         /* init_a */
#define LAMINA_INIT_NORMAL 3u           /* standard deviation init_a */
#define LAMINA_INIT_TRUNCATED_NORMAL 4u /* standard deviation init_a, cut at 2 of them */
#define LAMINA_INIT_UNIFORM 5u          /* between init_a and init_b */
#define LAMINA_INIT_LOG_UNIFORM 6u      /* log of a draw between init_a and init_b */
#define LAMINA_INIT_FAN_IN 7u           /* normal, deviation init_a / sqrt(size of the last dim) */
#define LAMINA_INIT_CYCLE 8u            /* element i of the whole tensor is i modulo init_a */

/* Flags of a parameter. */
#define LAMINA_PARAM_BUFFER 1u   /* not trained */
#define LAMINA_PARAM_NO_DECAY 2u /* no weight decay, whatever its role */
#define LAMINA_PARAM_DECAY 4u    /* weight decay, whatever its role */

/* Decode states; B (requests) and token slots are the host's dims. dims are: */
#define LAMINA_STATE_KV 1u            /* kv heads, head width of k[, of v]; of attention */
#define LAMINA_STATE_LATENT 2u        /* rank, rope width; written by latent_attention */
#define LAMINA_STATE_RECURRENT 3u     /* heads, key width, value width; of gated_delta_rule */
#define LAMINA_STATE_CONV_WINDOW 4u   /* channels, earlier tokens kept; of causal_conv1d, window_pool */
#define LAMINA_STATE_TOKEN_HISTORY 5u /* last n token ids */
#define LAMINA_STATE_INDEX_KEYS 6u    /* width of an indexer key; of index_scores */
#define LAMINA_STATE_CUSTOM 7u        /* any */

#define LAMINA_STATE_FLAG_NO_QUANTIZE 1u /* keeps the run's dtype under cache quantisation */

/* Inputs of a block. */
#define LAMINA_INPUT_POSITIONS 1u   /* i32[B, T], from 0 in each document */
#define LAMINA_INPUT_TOKEN_IDS 2u   /* i32[B, T] */
#define LAMINA_INPUT_SEGMENT_IDS 3u /* i32[B, T]; 0 = padding */
#define LAMINA_INPUT_LAYER_INDEX 4u /* i32[], global */
#define LAMINA_INPUT_SEED 5u        /* i64[2] for dropout: seed, step */
#define LAMINA_INPUT_EMBEDDING 6u   /* [B, T, D], the input of the first layer */
#define LAMINA_INPUT_POSITIONS_3D 7u /* i32[3, B, T]: time, height, width; in text all POSITIONS */
/* i32[B, T]: which image each token is part of, from 1; 0 = none. Handle 0, no tensor, where the
   call has no images: an input of an op that may be absent takes that, too. */
#define LAMINA_INPUT_IMAGE_BLOCKS 8u

/* Auxiliary losses and metrics ("sown" by blocks), updates. */
#define LAMINA_SOW_LOSS 1u
#define LAMINA_SOW_METRIC 2u
#define LAMINA_REDUCE_SUM 0u
#define LAMINA_REDUCE_MEAN 1u
#define LAMINA_REDUCE_MAX 2u
#define LAMINA_UPDATE_ADD 1u       /* p += rate * value */
#define LAMINA_UPDATE_SIGN_STEP 2u /* p += rate * sign(value) */
#define LAMINA_UPDATE_ASSIGN 3u    /* p = value */

/* Rows of a tensor map. */
#define LAMINA_HF_OPTIONAL 1u /* may be absent: the parameter then has its initial value */
#define LAMINA_HF_TIED 2u     /* absent, or ignored, where the head is tied */
#define LAMINA_HF_IGNORE 4u   /* published, and not used here; `param` is empty. A row with a block
                               * is for the layers of that block only */
#define LAMINA_HF_BEYOND 8u   /* with IGNORE: only where {L} is num_hidden_layers or more */
#define LAMINA_HF_SURPLUS 16u /* may be published where the layer has no such parameter too */

/* Transforms, from published to ours; exporting undoes them in reverse order. */
#define LAMINA_TRANSFORM_TRANSPOSE 1u /* swap the last two dims */
#define LAMINA_TRANSFORM_ADD 2u       /* + number */
#define LAMINA_TRANSFORM_MUL 3u       /* * number */
/* Part `index` of several parameters concatenated along dim; the other parts are the parameters
 * of the layer whose rows have this published name. */
#define LAMINA_TRANSFORM_PART 4u
#define LAMINA_TRANSFORM_STRIDED 5u /* every count-th along dim, from index on */
#define LAMINA_TRANSFORM_SQUEEZE 6u /* without dim, of size 1 */
#define LAMINA_TRANSFORM_SPLIT 7u   /* dim is our dims dim and dim + 1 */

/* Parameters that are the host's, for the rows with block 0. */
#define LAMINA_NAME_EMBED "embed.weight"         /* [V, D] */
#define LAMINA_NAME_POSITIONS "positions.weight" /* [max_positions, D] */
#define LAMINA_NAME_NORM "norm.weight"           /* [D] */
#define LAMINA_NAME_NORM_BIAS "norm.bias"        /* [D] */
#define LAMINA_NAME_HEAD "head.weight"           /* [V, D] */

/* Logical axes of parameters, */
#define LAMINA_AXIS_EMBED "embed" /* model width */
#define LAMINA_AXIS_HEADS "heads" /* query heads times head width */
#define LAMINA_AXIS_KV_HEADS "kv_heads"
#define LAMINA_AXIS_QKV "qkv"     /* queries, keys and values concatenated */
#define LAMINA_AXIS_HEAD_DIM "head_dim"
#define LAMINA_AXIS_MLP "mlp"
#define LAMINA_AXIS_EXPERTS "experts"
#define LAMINA_AXIS_EXPERT_MLP "expert_mlp"
#define LAMINA_AXIS_VOCAB "vocab"
#define LAMINA_AXIS_NORM "norm"
#define LAMINA_AXIS_POSITIONS "positions"
#define LAMINA_AXIS_Q_LORA "q_lora"
#define LAMINA_AXIS_KV_LORA "kv_lora"
#define LAMINA_AXIS_RECURRENT_HEADS "recurrent_heads"
#define LAMINA_AXIS_CONV "conv"
#define LAMINA_AXIS_ENGRAM "engram"
#define LAMINA_AXIS_MHC "mhc"
/* of activations, */
#define LAMINA_AXIS_ACT_BATCH "act_batch"
#define LAMINA_AXIS_ACT_LENGTH "act_length"
#define LAMINA_AXIS_ACT_EMBED "act_embed"
#define LAMINA_AXIS_ACT_HEADS "act_heads"
#define LAMINA_AXIS_ACT_KV_HEADS "act_kv_heads"
#define LAMINA_AXIS_ACT_MLP "act_mlp"
#define LAMINA_AXIS_ACT_EXPERTS "act_experts"
#define LAMINA_AXIS_ACT_VOCAB "act_vocab"
/* and of decode state. */
#define LAMINA_AXIS_CACHE_BATCH "cache_batch"
#define LAMINA_AXIS_CACHE_LENGTH "cache_length"
#define LAMINA_AXIS_CACHE_HEADS "cache_heads"
#define LAMINA_AXIS_CACHE_DIM "cache_dim"

/* Tags: names of values for rematerialisation policies (decoder_layer_input is always kept) and for
 * tools that inspect values inside layers, eg: `lamina verify`. */
#define LAMINA_TAG_DECODER_LAYER_INPUT "decoder_layer_input" /* input of a layer */
#define LAMINA_TAG_QUERY_PROJ "query_proj" /* q as attention takes it, after norm and rope */
#define LAMINA_TAG_KEY_PROJ "key_proj"
#define LAMINA_TAG_VALUE_PROJ "value_proj"
#define LAMINA_TAG_QKV_PROJ "qkv_proj" /* the product of a fused projection */
#define LAMINA_TAG_KV_PROJ "kv_proj"
#define LAMINA_TAG_QUERY_WA_PROJ "query_wa_proj" /* low-rank q before its norm */
#define LAMINA_TAG_MLA_Q "mla_q" /* and after */
#define LAMINA_TAG_KV_WA_PROJ "kv_wa_proj" /* latent and rope part before the norm */
#define LAMINA_TAG_MLA_KV "mla_kv" /* and after */
#define LAMINA_TAG_ATTENTION_OUT "attention_out" /* before the output projection */
#define LAMINA_TAG_OUT_PROJ "out_proj" /* and after it */
#define LAMINA_TAG_CONTEXT "context" /* output and log-sum-exp of attention */
#define LAMINA_TAG_MLPWI "mlpwi" /* the product of a fused or single input projection */
#define LAMINA_TAG_MLPWI_0 "mlpwi_0" /* the gate's product, before the activation */
#define LAMINA_TAG_MLPWI_1 "mlpwi_1" /* the other input product */
#define LAMINA_TAG_MLPWO "mlpwo" /* output of the feed-forward */
#define LAMINA_TAG_MOE_MLPWI_0 "moe_mlpwi_0"
#define LAMINA_TAG_MOE_MLPWI_1 "moe_mlpwi_1"
#define LAMINA_TAG_MOE_MLPWO "moe_mlpwo"
#define LAMINA_TAG_QUANTIZATION "quantization" /* quantised operands */
#define LAMINA_TAG_RECURRENT_OUT "recurrent_out"
#define LAMINA_TAG_ENGRAM "engram"
#define LAMINA_TAG_ROUTER_LOGITS "router_logits" /* f32[B, T, E] */
#define LAMINA_TAG_ROUTER_EXPERTS "router_experts" /* i32[B, T, K], the chosen */
#define LAMINA_TAG_ROUTER_WEIGHTS "router_weights" /* f32[B, T, K], of the chosen */
#define LAMINA_TAG_MOE_OUT "moe_out" /* output of the experts, shared ones included */
/* [B, T, keys]: the indexer's score of each key, or of each pooled window, per query. */
#define LAMINA_TAG_INDEXER_SCORES "indexer_scores"
/* i32[B, windows]: the index in the row of each window's last token; -1 = none. */
#define LAMINA_TAG_WINDOW_ENDS "window_ends"
#define LAMINA_TAG_COMPRESSED_ENTRIES "compressed_entries" /* [B, windows, D], as attention reads */
/* Hyper-connections: the input of a branch [B, T, D], the weights of its output per stream
 * [B, T, K], and the mixing matrix of the streams, from before to after: [B, T, K, K]. */
#define LAMINA_TAG_MHC_COLLAPSED "mhc_collapsed"
#define LAMINA_TAG_MHC_POST "mhc_post"
#define LAMINA_TAG_MHC_COMB "mhc_comb"

#endif /* LAMINA_NAMES_H */
