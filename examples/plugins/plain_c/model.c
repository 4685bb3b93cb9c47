/* A decoder of rotary attention and gated feed-forwards, in plain C without the SDK.
 *
 * Shapes: B batch, T tokens, D model width, N heads, H head width, M feed-forward width. */
#include <string.h>

#include "lamina/abi.h"
#include "lamina/names.h"

#define ID "org.example.plain_c"
#define VERSION "1.0.0"
#define NAME "plain_c"
#define DOC "Rotary attention and gated feed-forwards, in plain C"

#define STR(text) \
  { "" text, sizeof(text) - 1 }
#define SPAN(array) \
  { array, sizeof(array) / sizeof((array)[0]), sizeof((array)[0]) }
#define HERE \
  &(const lamina_where_t) { STR(__FILE__), __LINE__, 0 }

/* The manifest, which a host reads without running the plugin. One digit is enough for the minor; the
 * strings have no terminators. */
#define BEFORE \
  "{\"id\": \"" ID "\", \"version\": \"" VERSION "\", \"abi_major\": 0, \"abi_built\": "
#define BETWEEN ", \"abi_min_host\": "
#define AFTER                                                                       \
  ", \"arch\": \"x86_64\", \"families\": [{\"name\": \"" NAME "\", \"doc\": \"" DOC \
  "\", \"aliases\": [], \"hf_model_types\": [], \"hf_architectures\": []}]}"
LAMINA_STATIC_ASSERT(LAMINA_ABI_MAJOR == 0 && LAMINA_ABI_MINOR < 10,
                     "other digits in the manifest");

__attribute__((section(LAMINA_MANIFEST_SECTION), used)) static const struct {
  char before[sizeof BEFORE - 1], built, between[sizeof BETWEEN - 1], least;
  char after[sizeof AFTER - 1];
} manifest = {BEFORE, '0' + LAMINA_ABI_MINOR, BETWEEN, '0' + LAMINA_ABI_CANDIDATE, AFTER};

/* The numbers of ops.def by name. */
enum {
#define LAMINA_OP(id, name, revision, since, inputs, outputs, attributes, doc) OP_##name = id,
#include "lamina/ops.def"
};

typedef lamina_tensor_t Tensor;

static int64_t integer(const lamina_config_t* config, const char* key) {
  lamina_value_t value = {0};
  config->api->get(config, (lamina_str_t){key, strlen(key)}, &value);
  return value.v.i;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

#define COUNT(text, about)                                                               \
  {                                                                                      \
    .size = sizeof(lamina_key_t), .type = LAMINA_KIND_INT, .flags = LAMINA_KEY_REQUIRED, \
    .name = STR(text), .doc = STR(about), .min = {                                       \
      .type = LAMINA_KIND_INT,                                                           \
      .v = {.i = 1}                                                                      \
    }                                                                                    \
  }

static const lamina_key_t kKeys[] = {
    COUNT("vocab_size", "rows of the token table"),
    COUNT("hidden_size", "model width D"),
    COUNT("num_hidden_layers", "layers"),
    COUNT("num_attention_heads", "heads N"),
    COUNT("intermediate_size", "feed-forward width M"),
};

static lamina_status_t validate(void* user, const lamina_config_t* config, lamina_reply_t* reply) {
  (void)user;
  if (integer(config, "hidden_size") % (2 * integer(config, "num_attention_heads")) == 0)
    return LAMINA_OK;
  return reply->api->problem(
      reply, (lamina_str_t)STR("num_attention_heads"),
      (lamina_str_t)STR(
          "twice that many must divide hidden_size, so that heads have an even width"),
      HERE);
}

static lamina_status_t plan(void* user, const lamina_config_t* config, lamina_reply_t* reply) {
  (void)user;
  const lamina_position_t unit[] = {{.size = sizeof(lamina_position_t), .block = 1}};
  const lamina_segment_t layers = {.size = sizeof layers,
                                   .name = STR("layers"),
                                   .unit = SPAN(unit),
                                   .times = (uint32_t)integer(config, "num_hidden_layers")};
  return reply->api->segment(reply, &layers);
}

static lamina_status_t options(void* user, const lamina_config_t* config, lamina_reply_t* reply) {
  (void)user, (void)config;
  const lamina_norm_t norm = {.size = sizeof norm, .op = OP_rms_norm, .revision = 1};
  const lamina_head_t head = {.size = sizeof head, .flags = LAMINA_HEAD_TIED, .norm = &norm};
  return reply->api->head(reply, &head);
}

/* ---- The block: after the first call that fails the others do nothing ------------------------ */

static Tensor emit(lamina_build_t* b, uint32_t op, lamina_state_t state, lamina_span_t inputs,
                   lamina_span_t attrs, const lamina_where_t* at) {
  Tensor out = 0;
  const lamina_emit_t use = {.size = sizeof use,
                             .op = op,
                             .revision = 1,
                             .inputs = inputs,
                             .attrs = attrs,
                             .state = state,
                             .outputs = &out,
                             .n_outputs = 1};
  b->api->emit(b, &use, at);
  return out;
}
static Tensor binary(lamina_build_t* b, uint32_t op, Tensor x, Tensor y, const lamina_where_t* at) {
  const Tensor inputs[] = {x, y};
  return emit(b, op, 0, (lamina_span_t)SPAN(inputs), (lamina_span_t){0}, at);
}
static Tensor reshape(lamina_build_t* b, Tensor x, lamina_span_t dims, const lamina_where_t* at) {
  const lamina_attr_t attrs[] = {{1, 0, {.type = LAMINA_KIND_INT_LIST, .v = {.list = dims}}}};
  const Tensor inputs[] = {x};
  return emit(b, OP_reshape, 0, (lamina_span_t)SPAN(inputs), (lamina_span_t)SPAN(attrs), at);
}

/* Multiplies x[..., in] by the parameter "<name>.weight" [out, in]. */
static Tensor linear(lamina_build_t* b, const char* name, Tensor x, int64_t in, int64_t out,
                     const char* axis_in, const char* axis_out, const lamina_where_t* at) {
  const int64_t dims[] = {out, in};
  const lamina_str_t axes[] = {{axis_out, strlen(axis_out)}, {axis_in, strlen(axis_in)}};
  const lamina_param_t weight = {.size = sizeof weight,
                                 .role = LAMINA_ROLE_WEIGHT,
                                 .name = STR("weight"),
                                 .dims = SPAN(dims),
                                 .axes = SPAN(axes),
                                 .init = LAMINA_INIT_FAN_IN,
                                 .init_a = 1};
  Tensor w = 0;
  b->api->scope(b, (lamina_str_t){name, strlen(name)}, 1);
  b->api->param(b, &weight, at, &w);
  const Tensor y = binary(b, OP_linear, x, w, at);
  b->api->scope(b, (lamina_str_t){0}, 0);
  return y;
}

static Tensor norm(lamina_build_t* b, const char* name, Tensor x, int64_t width,
                   const lamina_where_t* at) {
  const int64_t dims[] = {width};
  const lamina_str_t axes[] = {STR(LAMINA_AXIS_NORM)};
  const lamina_param_t gain = {.size = sizeof gain,
                               .role = LAMINA_ROLE_NORM,
                               .name = STR("weight"),
                               .dims = SPAN(dims),
                               .axes = SPAN(axes),
                               .init = LAMINA_INIT_ONES};
  Tensor w = 0;
  b->api->scope(b, (lamina_str_t){name, strlen(name)}, 1);
  b->api->param(b, &gain, at, &w);
  const Tensor y = binary(b, OP_rms_norm, x, w, at);
  b->api->scope(b, (lamina_str_t){0}, 0);
  return y;
}

static Tensor attention(lamina_build_t* b, Tensor x, int64_t D, int64_t N) {
  static const char* const names[] = {"wq", "wk", "wv"};
  static const lamina_str_t axes[] = {STR(LAMINA_AXIS_CACHE_HEADS), STR(LAMINA_AXIS_CACHE_DIM)};
  const int64_t kept[] = {N, D / N};
  const lamina_state_desc_t kv = {.size = sizeof kv,
                                  .kind = LAMINA_STATE_KV,
                                  .name = STR("kv"),
                                  .dims = SPAN(kept),
                                  .axes = SPAN(axes)};
  lamina_type_t type = {.size = sizeof type};
  lamina_state_t state = 0;
  Tensor positions = 0, qkv[3];
  b->api->type(b, x, HERE, &type);
  b->api->state(b, &kv, HERE, &state);
  b->api->input(b, LAMINA_INPUT_POSITIONS, HERE, &positions);
  const int64_t heads[] = {type.dims[0], type.dims[1], N, D / N},
                whole[] = {type.dims[0], type.dims[1], D};
  for (int i = 0; i < 3; ++i) {
    const Tensor y = linear(b, names[i], x, D, D, LAMINA_AXIS_EMBED, LAMINA_AXIS_HEADS, HERE);
    qkv[i] = reshape(b, y, (lamina_span_t)SPAN(heads), HERE);
    if (i < 2) qkv[i] = binary(b, OP_rope, qkv[i], positions, HERE);
  }
  const Tensor mixed =
      emit(b, OP_attention, state, (lamina_span_t)SPAN(qkv), (lamina_span_t){0}, HERE);
  return linear(b, "wo", reshape(b, mixed, (lamina_span_t)SPAN(whole), HERE), D, D,
                LAMINA_AXIS_HEADS, LAMINA_AXIS_EMBED, HERE);
}

static Tensor feed_forward(lamina_build_t* b, Tensor x, int64_t D, int64_t M) {
  const Tensor gate = linear(b, "w1", x, D, M, LAMINA_AXIS_EMBED, LAMINA_AXIS_MLP, HERE);
  const Tensor up = linear(b, "w3", x, D, M, LAMINA_AXIS_EMBED, LAMINA_AXIS_MLP, HERE);
  return linear(b, "w2", binary(b, OP_glu, gate, up, HERE), M, D, LAMINA_AXIS_MLP,
                LAMINA_AXIS_EMBED, HERE);
}

static lamina_status_t build(void* user, lamina_build_t* b, const lamina_config_t* config,
                             const lamina_io_t* io) {
  (void)user;
  const int64_t D = integer(config, "hidden_size");
  Tensor x = io->carry_in[0];
  Tensor y = attention(b, norm(b, "attention_norm", x, D, HERE), D,
                       integer(config, "num_attention_heads"));
  x = binary(b, OP_add, x, y, HERE);
  y = feed_forward(b, norm(b, "ffn_norm", x, D, HERE), D, integer(config, "intermediate_size"));
  io->carry_out[0] = binary(b, OP_add, x, y, HERE);
  /* Also reports failures of the calls above: after the first one the others did nothing. */
  lamina_type_t type = {.size = sizeof type};
  return b->api->type(b, io->carry_out[0], HERE, &type);
}

/* ---- Registration ---------------------------------------------------------------------------- */

static const lamina_block_t kBlocks[] = {
    {.size = sizeof(lamina_block_t), .id = 1, .name = STR("layer"), .build = build}};
static const lamina_family_t kFamilies[] = {{.size = sizeof(lamina_family_t),
                                             .name = STR(NAME),
                                             .doc = STR(DOC),
                                             .keys = SPAN(kKeys),
                                             .blocks = SPAN(kBlocks),
                                             .validate = validate,
                                             .plan = plan,
                                             .options = options}};
static const lamina_families_t kInterface = {.size = sizeof kInterface,
                                             .families = SPAN(kFamilies)};

static int uses;
static lamina_status_t init(const lamina_host_t* host) {
  (void)host;
  ++uses;
  return LAMINA_OK;
}
static void deinit(void) { --uses; }
static const void* get_interface(lamina_str_t id) {
  static const char known[] = LAMINA_FAMILIES_ID;
  return uses > 0 && id.len == sizeof known - 1 && !memcmp(id.ptr, known, id.len) ? &kInterface
                                                                                  : NULL;
}

const lamina_plugin_t lamina_plugin_v0 = {.magic = LAMINA_PLUGIN_MAGIC,
                                          .size = sizeof(lamina_plugin_t),
                                          .abi_major = LAMINA_ABI_MAJOR,
                                          .abi_built = LAMINA_ABI_MINOR,
                                          .abi_min_host = LAMINA_ABI_CANDIDATE,
                                          .id = STR(ID),
                                          .version = STR(VERSION),
                                          .init = init,
                                          .deinit = deinit,
                                          .get_interface = get_interface};
