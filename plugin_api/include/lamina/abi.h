/* The C contract between lamina and its plugins: plain C11, no dependencies, append-only. One file
 * of more than 400 lines, because it is read, copied and compared as a whole.
 *
 * A plugin is a shared library `<name>.lamina.so` with one exported symbol, the constant
 * `lamina_plugin_v0`. It never computes: it describes model families as data, and each layer as
 * calls that add ops to a graph owned by the host. names.h has the names and numbers that both
 * sides must agree on, ops.def the ops, ext/ the parts that only some families need. The rules in
 * prose: docs/plugin_requirements.md.
 *
 * Rules for everything below
 * - Little-endian, 64 bit. No implicit padding; fields `_padN` are zero.
 * - Zero means absent, off or default, for every field. Fields are only added, at the end.
 * - Structs that begin with `size` may grow: the writer sets size = sizeof(the struct) in its
 *   build.
 *   The reader takes min(size, the size it knows) bytes, assumes zeros for fields that an older
 *   writer lacks, and refuses non-zero bytes beyond the fields it knows. LAMINA_GROWABLE lists the
 *   least sizes.
 * - Tables of functions grow too: a plugin asks LAMINA_HAS before it calls a function that is newer
 *   than its oldest supported host (abi_min_host).
 * - Strings are UTF-8, pointer and length, without a terminator, at most 64 KiB.
 * - Arguments of a call are borrowed until the call returns; the callee copies what it keeps.
 *   Nothing is freed across the border. Data reached from lamina_plugin_v0 and from get_interface()
 *   stays valid while the library is loaded.
 * - Outputs are untouched when a call fails.
 * - No function throws, exits or aborts.
 *
 * Roles in brackets
 *   [load]    one thread, while the library is being loaded or released
 *   [config]  any thread, also several at once; no shared state
 *   [trace]   the thread that was given the lamina_build_t, during that call only
 *   [any]     whenever the library is loaded
 */
#ifndef LAMINA_ABI_H
#define LAMINA_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define LAMINA_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define LAMINA_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/* The version of this header, and the first minor whose plugins load into every later host. */
#define LAMINA_ABI_CANDIDATE 5u
#define LAMINA_ABI_MAJOR 0u
#define LAMINA_ABI_MINOR 9u
#define LAMINA_PLUGIN_MAGIC UINT64_C(0x6e69676c70616d6c) /* "lmaplgin" */
#define LAMINA_MAX_DIMS 8

/* True if the struct at `ptr`, which may be from an older header, has `member`. */
#define LAMINA_HAS(type, ptr, member) \
  ((ptr)->size >= offsetof(type, member) + sizeof((ptr)->member))

/* ---- Scalars, handles, frozen structs ------------------------------------------------------- */

typedef int32_t lamina_status_t;  /* 0 or a LAMINA_ERROR_* of names.h */
typedef uint64_t lamina_tensor_t; /* a value of one trace; 0 = none; foreign handles are refused */
typedef uint64_t lamina_state_t;  /* a decode state of one trace; 0 = none */

typedef struct lamina_str {
  const char *ptr;
  uint64_t len;
} lamina_str_t;

/* `count` elements, `stride` bytes apart, so that elements may grow. */
typedef struct lamina_span {
  const void *ptr;
  uint32_t count, stride;
} lamina_span_t;

/* A plain value. type is a LAMINA_KIND_* of names.h; 0 = none. bool is 0 or 1 in i. */
typedef struct lamina_value {
  uint32_t type, _pad0;
  union {
    int64_t i;
    double f;
    lamina_str_t s;
    lamina_span_t list; /* of int64_t, double or lamina_str_t */
  } v;
} lamina_value_t;

/* An attribute of an op. key: its position in ops.def, from 1. since: the LAMINA_ABI_MINOR that
 * introduced the key, for the error message of an older host. */
typedef struct lamina_attr {
  uint32_t key, since;
  lamina_value_t value;
} lamina_attr_t;

/* A config key with a value. */
typedef struct lamina_setting {
  lamina_str_t name;
  lamina_value_t value;
} lamina_setting_t;

/* The place in the plugin's source that made a call; shown in errors. A null pointer = unknown. */
typedef struct lamina_where {
  lamina_str_t file;
  uint32_t line, _pad0;
} lamina_where_t;

LAMINA_STATIC_ASSERT(sizeof(void *) == 8, "lamina plugins are 64 bit");
LAMINA_STATIC_ASSERT(sizeof(lamina_str_t) == 16, "frozen");
LAMINA_STATIC_ASSERT(sizeof(lamina_span_t) == 16, "frozen");
LAMINA_STATIC_ASSERT(sizeof(lamina_value_t) == 24, "frozen");
LAMINA_STATIC_ASSERT(sizeof(lamina_attr_t) == 32, "frozen");
LAMINA_STATIC_ASSERT(sizeof(lamina_setting_t) == 40, "frozen");
LAMINA_STATIC_ASSERT(sizeof(lamina_where_t) == 24, "frozen");

/* ---- Config: the host's view of one model ---------------------------------------------------- */

typedef struct lamina_config lamina_config_t;
typedef struct lamina_reply lamina_reply_t;
typedef struct lamina_build lamina_build_t;

typedef struct lamina_config_api {
  uint32_t size, abi_minor;

  /* Writes the value of a declared key: from the run file or config.json, else the default, else
   * the value that derive() set; inside a block's build, the position's override has precedence.
   * type 0 if there is none. Strings and lists stay valid as long as the lamina_config_t. Fails
   * with LAMINA_ERROR_NOT_FOUND for a key that the family did not declare.
   * [config, trace] */
  lamina_status_t (*get)(const lamina_config_t *config, lamina_str_t key, lamina_value_t *out);
} lamina_config_api_t;

/* The first member of the host's own object. */
struct lamina_config {
  const lamina_config_api_t *api;
};

/* ---- Reply: receives the results of a family's [config] functions ---------------------------- */

/* One layer of a unit. */
typedef struct lamina_position {
  uint32_t size, block;     /* block: the id of a lamina_block_t */
  lamina_span_t overrides;  /* lamina_setting_t: values of declared keys in this position */
  uint32_t flags, _pad0;
} lamina_position_t;

/* A unit of positions, repeated. Segments in order cover the layers 0 .. num_hidden_layers - 1,
 * exactly. A remainder is a last segment whose unit is a prefix of the one before. */
typedef struct lamina_segment {
  uint32_t size, flags;     /* LAMINA_SEGMENT_* */
  lamina_str_t name;        /* for messages; eg: "dense" */
  lamina_span_t unit;       /* lamina_position_t */
  uint32_t times, _pad0;
} lamina_segment_t;

/* A normalisation by an op of ops.def that takes (x, w?, bias?). */
typedef struct lamina_norm {
  uint32_t size, op, revision, flags; /* LAMINA_NORM_* */
  lamina_span_t attrs;                /* lamina_attr_t */
} lamina_norm_t;

/* x = dropout(table[ids] * scale + positions). x is carry 0 of the first layer, or the input of the
 * entry block. */
typedef struct lamina_embed {
  uint32_t size, flags;
  double scale;              /* 0 = 1 */
  uint32_t positions, _pad0; /* LAMINA_POSITIONS_* */
  int64_t max_positions;     /* rows of the table of learned positions */
  double dropout;
  double init_std;           /* of the token table; 0 = 0.02 */
  double positions_init_std; /* 0 = as init_std */
  /* Id of a block that runs once, before the layers; 0 = none. carry_in[0] is x; it writes n_carry
   * carries of any shape, then n_per_layer tensors whose first dim is num_hidden_layers: layer i
   * receives element i of each, see lamina_io_t. Its parameters are called "entry.<name>". */
  uint32_t entry;
  uint32_t n_carry;          /* 0 = 1 */
  uint32_t n_per_layer, _pad1;
} lamina_embed_t;

/* logits = cap(norm(x) w^T * logit_scale + bias). */
typedef struct lamina_head {
  uint32_t size, flags;  /* LAMINA_HEAD_* */
  double logit_scale;    /* 0 = 1 */
  double soft_cap;       /* 0 = none */
  double init_std;       /* of an untied table; 0 = 0.02 */
  const lamina_norm_t *norm; /* the final norm; null = none */
  /* Id of a block that runs once, after the layers: the carries in, x[B, T, D] out; 0 = x is carry
   * 0. Its parameters are called "exit.<name>". */
  uint32_t exit, _pad0;
} lamina_head_t;

typedef struct lamina_reply_api {
  uint32_t size, abi_minor;

  /* Sets a declared key that the config leaves out. A key that has a value keeps it.
   * [config: derive] */
  lamina_status_t (*set)(lamina_reply_t *reply, const lamina_setting_t *setting);

  /* Reports a wrong value of `key`, in the form "got X; Y would be right". May be called several
   * times. [config: validate] */
  lamina_status_t (*problem)(lamina_reply_t *reply, lamina_str_t key, lamina_str_t message,
                             const lamina_where_t *at);

  /* Adds the next segment. [config: plan] */
  lamina_status_t (*segment)(lamina_reply_t *reply, const lamina_segment_t *segment);

  /* Set the embedding and the head; each at most once. [config: options] */
  lamina_status_t (*embed)(lamina_reply_t *reply, const lamina_embed_t *embed);
  lamina_status_t (*head)(lamina_reply_t *reply, const lamina_head_t *head);

  /* Reports that the calling function failed; the first message is shown. Any [config] function. */
  void (*fail)(lamina_reply_t *reply, lamina_status_t status, lamina_str_t message,
               const lamina_where_t *at);
} lamina_reply_api_t;

struct lamina_reply {
  const lamina_reply_api_t *api;
};

/* ---- Build: how a block describes its layer -------------------------------------------------- */

/* A parameter. Its full name is the open scopes and `name`, joined with '.', eg:
 * "attention.wq.weight"; `name` and each scope have at most 64 characters. The prefixes "host." and
 * "engram." are reserved for the host. Declaring one name twice with the same description gives the
 * same tensor; two descriptions are refused. */
typedef struct lamina_param {
  uint32_t size, role;   /* LAMINA_ROLE_* */
  lamina_str_t name;
  lamina_span_t dims;    /* int64_t */
  lamina_span_t axes;    /* lamina_str_t, one logical axis (names.h) per dim */
  uint32_t init, flags;  /* LAMINA_INIT_*, LAMINA_PARAM_* */
  double init_a, init_b; /* numbers of the initialiser, see names.h */
  /* LAMINA_DTYPE_*; 0 = the compute type of the run, or f32 for parameters of one dim or none.
   * Integers are never trained. */
  uint32_t dtype, _pad0;
  lamina_str_t group;    /* a name for learning rates and masks; empty = by role */
} lamina_param_t;

/* The decode state of a layer, kept between decoded tokens: docs/decode_state.md. In training the
 * handle is valid too and the op computes without a state, so one build serves every phase. */
typedef struct lamina_state_desc {
  uint32_t size, kind;   /* LAMINA_STATE_*, which defines the meaning of dims */
  lamina_str_t name;
  lamina_span_t dims;    /* int64_t */
  lamina_span_t axes;    /* lamina_str_t, one per dim */
  int64_t window;        /* only the last `window` tokens are read; 0 = all */
  int64_t chunk;         /* only tokens of the current chunk are read; 0 = all */
  uint32_t dtype, flags; /* 0 = the run's; LAMINA_STATE_FLAG_* */
  int64_t stride;        /* tokens per slot; 0 = 1 */
} lamina_state_desc_t;

/* One use of an op. */
typedef struct lamina_emit {
  uint32_t size, op, revision, _pad0;
  /* lamina_tensor_t in the order of ops.def. Absent optional inputs are 0 or past the end of a
   * shorter span, including inputs that only a newer host knows.
   * Inputs that only the host knows (positions, key_positions, segments, key_segments, start, and
   * blocks of ops that mix tokens) are 0: the host adds them. The host also adds k and v of
   * attention in a layer that reads another layer's, see ext/layer_sharing.h. */
  lamina_span_t inputs;
  lamina_span_t attrs;      /* lamina_attr_t by rising key; absent ones have their default */
  /* For ops that remember tokens: attention (kv), causal_conv1d (conv window), gated_delta_rule,
   * matrix_scan and linear_scan (recurrent), latent_attention (latent), index_scores (index keys),
   * window_pool (conv window: channels of values and gates together, tokens of the longest window
   * less one), compressed_attention (kv: 1, width; window and stride equal the op's window and
   * ratio). */
  lamina_state_t state;
  /* Written: one handle per output, for the first n_outputs; 0 for outputs that the host does not
   * know. */
  lamina_tensor_t *outputs;
  uint32_t n_outputs, _pad1;
} lamina_emit_t;

/* The sizes and type of a tensor, over all devices. */
typedef struct lamina_type {
  uint32_t size, dtype; /* LAMINA_DTYPE_* */
  uint32_t ndim, _pad0;
  int64_t dims[LAMINA_MAX_DIMS];
} lamina_type_t;

/* All [trace]. The first failure of a trace is the one that is reported; later calls return
 * LAMINA_ERROR_TRACE and do nothing. Arguments of ops are checked by the host. */
typedef struct lamina_build_api {
  uint32_t size, abi_minor;

  /* Adds an op. */
  lamina_status_t (*emit)(lamina_build_t *build, const lamina_emit_t *emit,
                          const lamina_where_t *at);
  /* Declares a parameter. Every trace of a block must declare the same ones. */
  lamina_status_t (*param)(lamina_build_t *build, const lamina_param_t *param,
                           const lamina_where_t *at, lamina_tensor_t *out);
  /* Declares a decode state. Its name, including the scope, must be unique in the block. */
  lamina_status_t (*state)(lamina_build_t *build, const lamina_state_desc_t *state,
                           const lamina_where_t *at, lamina_state_t *out);
  /* Returns a LAMINA_INPUT_*; the same handle each time. */
  lamina_status_t (*input)(lamina_build_t *build, uint32_t kind, const lamina_where_t *at,
                           lamina_tensor_t *out);
  /* A scalar with the element type of activations: values[i] (double) in layer i; one value per
   * layer of the model. */
  lamina_status_t (*layer_constant)(lamina_build_t *build, lamina_str_t name, lamina_span_t values,
                                    const lamina_where_t *at, lamina_tensor_t *out);
  /* out->size is set by the caller; that many bytes are written. */
  lamina_status_t (*type)(lamina_build_t *build, lamina_tensor_t tensor, const lamina_where_t *at,
                          lamina_type_t *out);

  /* Opens (push 1) or closes (push 0, name ignored) a scope; closed again before build returns. */
  lamina_status_t (*scope)(lamina_build_t *build, lamina_str_t name, uint32_t push);

  /* Names `tensor` for rematerialisation policies (names.h, or "<plugin id>.<x>"). Any other name
   * is a warning and has no effect. */
  lamina_status_t (*tag)(lamina_build_t *build, lamina_tensor_t tensor, lamina_str_t name,
                         const lamina_where_t *at, lamina_tensor_t *out);
  /* Names the dims of `tensor` by logical axes: lamina_str_t, one per dim, empty = none. An unknown
   * axis is a warning and is never split. */
  lamina_status_t (*axes)(lamina_build_t *build, lamina_tensor_t tensor, lamina_span_t names,
                          const lamina_where_t *at, lamina_tensor_t *out);

  /* The block cannot be built. */
  void (*fail)(lamina_build_t *build, lamina_status_t status, lamina_str_t message,
               const lamina_where_t *at);
} lamina_build_api_t;

struct lamina_build {
  const lamina_build_api_t *api;
};

/* ---- Declarations of a plugin ---------------------------------------------------------------- */

/* A key of the [model] table and of config.json. The host adds other keys. A family that
 * declares a key with the same name keeps it, and the host's feature is off. */
typedef struct lamina_key {
  uint32_t size, type;     /* LAMINA_KIND_* */
  uint32_t flags, since;   /* LAMINA_KEY_*; since: the LAMINA_ABI_MINOR that it needs, 0 = any */
  lamina_str_t name;       /* a dotted path as in Hugging Face, eg: "rope_scaling.factor" */
  lamina_str_t doc;        /* one line, with the unit */
  /* lamina_str_t: other paths in config.json, in order. Since minor 8 a part "x[]" is a list of
   * objects: the value is a list with a member of each object; 0 or "" where an object lacks it. */
  lamina_span_t aliases;
  lamina_value_t fallback; /* the family's default; type 0 = none */
  lamina_str_t same_as;    /* a key whose value is the default; empty = none */
  lamina_value_t min, max; /* type 0 = unlimited; for lists, limits of each element */
  /* lamina_str_t. Strings: the allowed ones, empty = any. Numbers and flags, since minor 8: words
   * that mean that the value is not given, eg: "auto". */
  lamina_span_t choices;
  lamina_str_t hf_name;    /* path in an exported config.json; empty = name */
} lamina_key_t;

/* The tensors of one build of a block. In a layer carry_out has the shapes of carry_in; for other
 * blocks see entry, exit and ext/mtp.h. */
typedef struct lamina_io {
  uint32_t size, n_carry;           /* n_carry: number of carry_in */
  const lamina_tensor_t *carry_in;  /* [0] = activations [B, T, D] unless the entry differs */
  lamina_tensor_t *carry_out;       /* written: n_out of them */
  uint32_t n_out, n_per_layer;
  const lamina_tensor_t *per_layer; /* this layer's elements of the entry's per-layer tensors */
} lamina_io_t;

/* A kind of layer. */
typedef struct lamina_block {
  uint32_t size, id;   /* id: from 1, unique in the family */
  uint32_t flags, _pad0;
  lamina_str_t name;   /* for messages; eg: "local" */
  void *user;          /* passed to build */

  /* Adds one layer to the graph. Must be a pure function of the config and of static sizes: it is
   * called once per distinct position and phase, in any order. [trace] */
  lamina_status_t (*build)(void *user, lamina_build_t *build, const lamina_config_t *config,
                           const lamina_io_t *io);
} lamina_block_t;

/* A step of the conversion from a published tensor to ours; every step can be undone. `dim` refers
 * to the tensor after the earlier steps; negative values count from the last dim. */
typedef struct lamina_transform {
  uint32_t size, kind;   /* LAMINA_TRANSFORM_* */
  double number;         /* for ADD, MUL */
  int64_t dim;           /* for all but TRANSPOSE, ADD, MUL */
  uint32_t index, count; /* for PART (index), STRIDED, MERGE (count), MOVE (index) */
} lamina_transform_t;

/* A row of the tensor map, used for loading and for exporting. A row is ignored if the block of
 * this model has no such parameter. Several rows of one parameter are alternatives: the first row
 * whose tensors exist is read, the first of all rows is exported. If several rows have the same
 * published name, the first whose shape fits is read, and of equal shapes the last. Compressed
 * tensors are decompressed: f8 with block scales in another tensor (x_scale_inv, or x.scale) is
 * found by the name x; MXFP4 has rows that name x_blocks, of shape [.., 32 * blocks]. The host
 * finds the scales. */
typedef struct lamina_hf_tensor {
  uint32_t size, block;     /* block id; 0 = outside the layers, see LAMINA_NAME_* */
  uint32_t flags, _pad0;    /* LAMINA_HF_* */
  lamina_str_t param;       /* our full name inside the block, eg: "attention.wq.weight" */
  /* Published name. {L} = global layer index; {E} = index into our first dim, with one tensor for
   * each; * = anything (ignored rows). Since minor 7: {P} = index of a block of ext/mtp.h, from
   * 0. */
  lamina_str_t hf;
  lamina_span_t transforms; /* lamina_transform_t, in order, from published to ours */
} lamina_hf_tensor_t;

/* A model family. `derive` and `validate` may be null. */
typedef struct lamina_family {
  uint32_t size, flags;
  lamina_str_t name;              /* eg: "my_family"; value of `family` in a run file */
  lamina_str_t doc;               /* one line for lists: paper and what is covered */
  lamina_span_t aliases;          /* lamina_str_t: other values of `family` */
  lamina_span_t hf_model_types;   /* lamina_str_t: `model_type` in config.json */
  lamina_span_t hf_architectures; /* lamina_str_t: `architectures`; [0] is exported */
  lamina_span_t keys;             /* lamina_key_t; vocab_size, hidden_size, num_hidden_layers */
  lamina_span_t blocks;           /* lamina_block_t */
  lamina_span_t hf_tensors;       /* lamina_hf_tensor_t */
  /* lamina_str_t. A published name matches a row if the two are equal, with or without one of these
   * prefixes on either side. */
  lamina_span_t hf_prefixes;
  void *user;                     /* passed to the functions below */

  /* Called in this order, after types, limits and required keys are checked. All [config]. */
  lamina_status_t (*derive)(void *user, const lamina_config_t *config, lamina_reply_t *reply);
  lamina_status_t (*validate)(void *user, const lamina_config_t *config, lamina_reply_t *reply);
  lamina_status_t (*plan)(void *user, const lamina_config_t *config, lamina_reply_t *reply);
  lamina_status_t (*options)(void *user, const lamina_config_t *config, lamina_reply_t *reply);
} lamina_family_t;

/* The interface LAMINA_FAMILIES_ID. */
typedef struct lamina_families {
  uint32_t size, _pad0;
  lamina_span_t families; /* lamina_family_t */
} lamina_families_t;

#define LAMINA_FAMILIES_ID "lamina.families/1"

/* ---- Entry ----------------------------------------------------------------------------------- */

typedef struct lamina_host lamina_host_t;
struct lamina_host {
  uint32_t size, abi_minor;
  lamina_str_t name, version; /* eg: "lamina", "0.1.0" */
  /* Returns a host interface by id, from ext/ or newer; null if unknown. [any] */
  const void *(*get_interface)(const lamina_host_t *host, lamina_str_t id);
  /* Logs a line; severity is a LAMINA_LOG_*. [any] */
  void (*log)(const lamina_host_t *host, int32_t severity, lamina_str_t text,
              const lamina_where_t *at);
  /* Returns 1 if the host knows number `id` of the list `what`, a LAMINA_CAPABILITY_*, else 0. For
   * ops, in this revision; for other lists revision is 0. [any] */
  uint64_t (*capability)(const lamina_host_t *host, uint32_t what, uint32_t id, uint32_t revision);
};

typedef struct lamina_plugin {
  uint64_t magic; /* LAMINA_PLUGIN_MAGIC */
  uint32_t size, abi_major, abi_built, abi_min_host; /* minors of this header and the oldest host */
  uint64_t flags;            /* LAMINA_PLUGIN_* */
  lamina_str_t id, version;  /* eg: "org.example.my_family", "1.2.0"; equal to the manifest's */
  lamina_str_t sdk;          /* for logs; eg: "lamina-sdk 0.1", "gcc 12.2" */
  lamina_str_t toolchain;

  /* Must be cheap: no threads, no devices, no files. Calls may nest; each has its deinit. [load] */
  lamina_status_t (*init)(const lamina_host_t *host);
  void (*deinit)(void);
  /* Returns an interface by id; null if unknown. Between init and deinit. [any] */
  const void *(*get_interface)(lamina_str_t id);
} lamina_plugin_t;

/* The one exported symbol. */
#define LAMINA_PLUGIN_SYMBOL "lamina_plugin_v0"
extern __attribute__((visibility("default"))) const lamina_plugin_t lamina_plugin_v0;

/* The ELF section with the manifest: one JSON object, without a terminator,
 * {"id", "version", "abi_major", "abi_built", "abi_min_host", "arch", "sdk", "toolchain",
 * "families": [{"name", "doc", "aliases", "hf_model_types", "hf_architectures"}]}. Read without
 * running the plugin. */
#define LAMINA_MANIFEST_SECTION ".lamina.manifest"

/* ---- Layout ---------------------------------------------------------------------------------- */

/* The structs that may grow, with the least size that a reader accepts: the size in the candidate,
 * or in the first minor that had the struct. */
#define LAMINA_GROWABLE(X) \
  X(lamina_config_api_t, 16) \
  X(lamina_reply_api_t, 56) \
  X(lamina_position_t, 32) \
  X(lamina_segment_t, 48) \
  X(lamina_norm_t, 32) \
  X(lamina_embed_t, 72) \
  X(lamina_head_t, 48) \
  X(lamina_param_t, 104) \
  X(lamina_state_desc_t, 88) \
  X(lamina_emit_t, 72) \
  X(lamina_type_t, 80) \
  X(lamina_build_api_t, 88) \
  X(lamina_key_t, 184) \
  X(lamina_io_t, 40) \
  X(lamina_block_t, 48) \
  X(lamina_transform_t, 32) \
  X(lamina_hf_tensor_t, 64) \
  X(lamina_family_t, 192) \
  X(lamina_families_t, 24) \
  X(lamina_host_t, 64) \
  X(lamina_plugin_t, 120)

/* Also for the lists of ext/. */
#define LAMINA_LEAST_SIZE(type, bytes) LAMINA_STATIC_ASSERT(sizeof(type) >= (bytes), #type);
LAMINA_GROWABLE(LAMINA_LEAST_SIZE)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LAMINA_ABI_H */
