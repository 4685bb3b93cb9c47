/* Numbers and names that host and plugins agree on. Append-only, like abi.h.
 *
 * Numbers are constants, not enums: the fields that store them define their width.
 */
#ifndef LAMINA_NAMES_H
#define LAMINA_NAMES_H

/* Status codes. */
#define LAMINA_OK 0
#define LAMINA_ERROR_ARGUMENT 1    /* a call broke the contract */
#define LAMINA_ERROR_SHAPE 2       /* sizes do not match */
#define LAMINA_ERROR_DTYPE 3
#define LAMINA_ERROR_CONFIG 4      /* a wrong value of a config key */
#define LAMINA_ERROR_UNSUPPORTED 5 /* not supported by this host; maybe by a newer one */
#define LAMINA_ERROR_NOT_FOUND 6
#define LAMINA_ERROR_STATE 7       /* wrong use of decode state */
#define LAMINA_ERROR_MEMORY 8
#define LAMINA_ERROR_INTERNAL 9    /* a bug, eg: an exception of an unexpected kind */
#define LAMINA_ERROR_ABI 10        /* incompatible versions */
#define LAMINA_ERROR_CANCELLED 11
#define LAMINA_ERROR_TRACE 12      /* the trace has already failed; see its first error */

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

/* Lists of numbers, for capability(): a host may know only a part of each. */
#define LAMINA_CAPABILITY_OP 1u        /* ops.def */
#define LAMINA_CAPABILITY_INPUT 2u     /* LAMINA_INPUT_* */
#define LAMINA_CAPABILITY_STATE 3u     /* LAMINA_STATE_* */
#define LAMINA_CAPABILITY_ROLE 4u      /* LAMINA_ROLE_* */
#define LAMINA_CAPABILITY_INIT 5u      /* LAMINA_INIT_* */
#define LAMINA_CAPABILITY_TRANSFORM 6u /* LAMINA_TRANSFORM_* */
#define LAMINA_CAPABILITY_AUXILIARY 7u /* LAMINA_AUXILIARY_* */
#define LAMINA_CAPABILITY_REDUCE 8u    /* LAMINA_REDUCE_* */
#define LAMINA_CAPABILITY_UPDATE 9u    /* LAMINA_UPDATE_* */

/* Ops with this number or a larger one are drafts, see ops.def. */
#define LAMINA_DRAFT_OPS 16384u
/* Numbers from here on are reserved for custom ops of plugins. */
#define LAMINA_CUSTOM_OPS 2147483648u

/* Flags of a plugin. */
#define LAMINA_PLUGIN_NEVER_UNLOAD 1u

/* Flags of a config key. */
#define LAMINA_KEY_REQUIRED 1u     /* no default, and derive() does not set it */
#define LAMINA_KEY_HF_ONLY 2u      /* allowed in config.json, not in [model]; its value counts */
#define LAMINA_KEY_IGNORED 4u      /* known in config.json, without effect here */
#define LAMINA_KEY_NULL_IS_ZERO 8u /* null in config.json is 0, false or empty, not "absent" */
#define LAMINA_KEY_PER_LAYER 16u   /* a list with one element per layer */
#define LAMINA_KEY_HOT 32u         /* may change when a run resumes; no parameter depends on it */
#define LAMINA_KEY_ABOVE_MIN 64u   /* min itself is not allowed */
#define LAMINA_KEY_BELOW_MAX 128u  /* max itself is not allowed */

/* Keys that every family must declare; the host reads them by name. */
#define LAMINA_CONFIG_VOCAB_SIZE "vocab_size"
#define LAMINA_CONFIG_HIDDEN_SIZE "hidden_size"
#define LAMINA_CONFIG_NUM_LAYERS "num_hidden_layers"
/* Optional: the longest sequence that the model was trained for, in tokens. */
#define LAMINA_CONFIG_MAX_POSITIONS "max_position_embeddings"

/* Flags of a segment. */
#define LAMINA_SEGMENT_UNROLL 1u /* never scanned */

/* Flags of a norm. Without NO_WEIGHT it has a weight, initialised so that weight + offset is 1. */
#define LAMINA_NORM_BIAS 1u
#define LAMINA_NORM_NO_WEIGHT 2u

/* Positions that the embedding adds. */
#define LAMINA_POSITIONS_NONE 0u
#define LAMINA_POSITIONS_LEARNED 1u
/* concat(sin, cos) of position * 10000^(-i / max(D/2 - 1, 1)), D/2 rounded down; an odd D has a 0
 * at the end. */
#define LAMINA_POSITIONS_SINUSOIDAL 2u

/* Flags of the head. */
#define LAMINA_HEAD_TIED 1u    /* the head is the embedding table */
#define LAMINA_HEAD_NO_LOSS 2u /* training computes no logits; only auxiliary losses count */
#define LAMINA_HEAD_BIAS 4u    /* logits have a bias, LAMINA_NAME_HEAD_BIAS */
/* Tokens see later tokens: the model is not autoregressive. It is trained and evaluated, never
 * decoded. Without this flag ops with causal 0 are refused. */
#define LAMINA_HEAD_BIDIRECTIONAL 8u

/* The purpose of a parameter. Decides weight decay, adapters and initialisers that runs ask for. */
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
/* Since minor 8: each layer has its own, also a layer that uses the parameters of another. */
#define LAMINA_PARAM_UNSHARED 8u
/* Since minor 9: a matrix that stays plain unless the user names it. */
#define LAMINA_PARAM_NO_QUANTIZE 16u

/* LAMINA_STATE_*: kinds of decode states. */
#define LAMINA_STATE_KIND(name, number, text, min_dims, max_dims)
#include "lamina/state_kinds.def"

#define LAMINA_STATE_FLAG_NO_QUANTIZE 1u /* never rounded to fewer bits */

/* Inputs of a block. */
#define LAMINA_INPUT_POSITIONS 1u   /* i32[B, T], from 0 in each document */
#define LAMINA_INPUT_TOKEN_IDS 2u   /* i32[B, T] */
#define LAMINA_INPUT_SEGMENT_IDS 3u /* i32[B, T]; 0 = padding */
#define LAMINA_INPUT_LAYER_INDEX 4u /* i32[], global */
#define LAMINA_INPUT_EMBEDDING 5u   /* [B, T, D], the input of the first layer */
#define LAMINA_INPUT_POSITIONS_3D 6u /* i32[3, B, T]: time, height, width; for text all POSITIONS */
/* i32[B, T]: the image of each token, from 1; 0 = none. Without images the handle is 0, no tensor,
   which optional inputs of ops accept. */
#define LAMINA_INPUT_IMAGE_BLOCKS 7u

/* Rows of a tensor map. */
#define LAMINA_HF_OPTIONAL 1u /* may be absent: the parameter then keeps its initial value */
#define LAMINA_HF_TIED 2u     /* absent or ignored if the head is tied */
#define LAMINA_HF_IGNORE 4u   /* published, but not used here; `param` is empty. A row with a block
                               * applies to the layers of that block only */
#define LAMINA_HF_BEYOND 8u   /* with IGNORE: only if {L} is num_hidden_layers or more */
#define LAMINA_HF_SURPLUS 16u /* may also be published for layers without this parameter */

/* Transforms, from published to ours; exporting undoes them in reverse order. */
#define LAMINA_TRANSFORM_TRANSPOSE 1u /* swap the last two dims */
#define LAMINA_TRANSFORM_ADD 2u       /* + number */
#define LAMINA_TRANSFORM_MUL 3u       /* * number */
/* Part `index` of several parameters concatenated along dim. The other parts are the parameters of
 * the layer whose rows have the same published name. */
#define LAMINA_TRANSFORM_PART 4u
#define LAMINA_TRANSFORM_STRIDED 5u /* every count-th along dim, from index on */
#define LAMINA_TRANSFORM_SQUEEZE 6u /* remove dim, which has size 1 */
#define LAMINA_TRANSFORM_SPLIT 7u   /* published dim is our dims dim and dim + 1 */
#define LAMINA_TRANSFORM_MERGE 8u   /* published dim and dim + 1, of size count, are our dim */
#define LAMINA_TRANSFORM_MOVE 9u    /* published dim is our dim index; others keep order */

/* The host's parameters, for rows with block 0. */
#define LAMINA_NAME_EMBED "embed.weight"         /* [V, D] */
#define LAMINA_NAME_POSITIONS "positions.weight" /* [max_positions, D] */
#define LAMINA_NAME_NORM "norm.weight"           /* [D] */
#define LAMINA_NAME_NORM_BIAS "norm.bias"        /* [D] */
#define LAMINA_NAME_HEAD "head.weight"           /* [V, D] */
#define LAMINA_NAME_HEAD_BIAS "head.bias"        /* [V] */

/* LAMINA_AXIS_*: logical axes. */
#define LAMINA_AXIS(name, text)
#include "lamina/axes.def"

/* LAMINA_TAG_*: names of values. */
#define LAMINA_TAG(name, text)
#include "lamina/tags.def"

#endif /* LAMINA_NAMES_H */
