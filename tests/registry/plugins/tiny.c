/* The smallest plugin in plain C: one family, one block, y = x + weight. FAULT_* (at build time)
 * breaks one rule of the load; the config key `fault` (at run time) one rule of the build. */
#define _GNU_SOURCE
#include "lamina/abi.h"
#include "lamina/ext/auxiliary.h"
#include "lamina/ext/export.h"
#include "lamina/ext/layer_sharing.h"
#include "lamina/ext/mtp.h"
#include "lamina/names.h"

#include <dirent.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef PLUGIN_ID
#define PLUGIN_ID "org.example.tiny"
#endif
#ifndef FAMILY
#define FAMILY "tiny"
#endif
#if defined(FAULT_MANIFEST_ABI)
#define MANIFEST_ABI "4"
#elif defined(FAULT_NEEDS_NEWER)
#define MANIFEST_ABI "90"
#else
#define MANIFEST_ABI ABI_MINOR_TEXT
#endif

#if defined(FAULT_MIN_HOST)
#define MIN_HOST_TEXT "80"
#elif defined(FAULT_NEEDS_NEWER)
#define MIN_HOST_TEXT "90"
#else
#define MIN_HOST_TEXT "0"
#endif
#ifdef FAULT_VERSION_TEXT
#define VERSION_TEXT "1.0\\u001b[2J"
#else
#define VERSION_TEXT "1.0"
#endif

#define STR(text) {"" text, sizeof(text) - 1}
#define SPAN(array) {array, sizeof(array) / sizeof((array)[0]), sizeof((array)[0])}
#define AT \
  &(const lamina_where_t) { STR("/somewhere/plugins/tiny/model.c"), __LINE__, 0 }

#if defined(FAULT_BAD_JSON)
#define MANIFEST "{\"id\": "
#elif !defined(FAULT_NO_MANIFEST)
#define MANIFEST                                                                            \
  "{\"id\": \"" PLUGIN_ID "\", \"version\": \"" VERSION_TEXT "\", \"abi_major\": 0, \"abi_built\": "     \
  MANIFEST_ABI ", \"abi_min_host\": " MIN_HOST_TEXT ", \"arch\": \"x86_64\", \"families\": [{\"name\": \""  \
  FAMILY "\", \"doc\": \"A tiny family.\", \"aliases\": [\"" FAMILY "_alias\"], "           \
  "\"hf_model_types\": [\"" FAMILY "_type\"], \"hf_architectures\": [\"TinyForCausalLM\"]}]}"
#endif
#ifdef MANIFEST
__attribute__((section(LAMINA_MANIFEST_SECTION), used)) static const char manifest[] = MANIFEST;
#endif

/* ---- Config ---------------------------------------------------------------------------------- */

static const lamina_str_t kNormAliases[] = {STR("eps")};
static const lamina_str_t kChoices[] = {STR("relu"), STR("silu")};

#define INT_KEY(text, bits) \
  {.size = sizeof(lamina_key_t), .type = LAMINA_KIND_INT, .flags = bits, .name = STR(text), \
   .doc = STR("A number."), .min = {.type = LAMINA_KIND_INT}}

static const lamina_key_t kKeys[] = {
    INT_KEY("vocab_size", LAMINA_KEY_REQUIRED),
    INT_KEY("hidden_size", LAMINA_KEY_REQUIRED),
#ifndef FAULT_NO_LAYERS_KEY
    INT_KEY("num_hidden_layers", LAMINA_KEY_REQUIRED),
#endif
    INT_KEY("fault", 0),
    INT_KEY("heads", LAMINA_KEY_NULL_IS_ZERO),
    INT_KEY("head_dim", 0),
    INT_KEY("file_only", LAMINA_KEY_HF_ONLY),
    {.size = sizeof(lamina_key_t), .type = LAMINA_KIND_INT, .name = STR("kv_heads"),
     .doc = STR("A number."), .same_as = STR("heads")},
    {.size = sizeof(lamina_key_t), .type = LAMINA_KIND_FLOAT, .name = STR("norm_eps"),
     .doc = STR("A small number."), .aliases = SPAN(kNormAliases), .fallback = {.type = LAMINA_KIND_FLOAT, .v = {.f = 1e-5}}},
    {.size = sizeof(lamina_key_t), .type = LAMINA_KIND_STRING, .name = STR("act"),
     .doc = STR("A function."), .fallback = {.type = LAMINA_KIND_STRING, .v = {.s = STR("silu")}}, .choices = SPAN(kChoices)},
    {.size = sizeof(lamina_key_t), .type = LAMINA_KIND_INT_LIST, .flags = LAMINA_KEY_PER_LAYER,
     .name = STR("kinds"), .doc = STR("A number for each layer.")},
    {.size = sizeof(lamina_key_t), .type = LAMINA_KIND_STRING, .flags = LAMINA_KEY_IGNORED,
     .name = STR("cache")},
#ifdef FAULT_INTEGERS
    {.size = sizeof(lamina_key_t), .type = LAMINA_KIND_FLOAT, .name = STR("weight"),
     .doc = STR("A number."), .fallback = {.type = LAMINA_KIND_INT, .v = {.i = 1}}},
    {.size = sizeof(lamina_key_t), .type = LAMINA_KIND_FLOAT, .name = STR("factor"),
     .doc = STR("A number.")},
    {.size = sizeof(lamina_key_t), .type = LAMINA_KIND_FLOAT, .name = STR("scale"),
     .doc = STR("A number."), .same_as = STR("hidden_size")},
#endif
#ifdef FAULT_KEY_TWICE
    INT_KEY("fault", 0),
#endif
#ifdef FAULT_SAME_KIND
    {.size = sizeof(lamina_key_t), .type = LAMINA_KIND_INT, .name = STR("window"),
     .doc = STR("A number."), .same_as = STR("norm_eps")},
#endif
#ifdef FAULT_SAME_LIMIT
    {.size = sizeof(lamina_key_t), .type = LAMINA_KIND_INT, .name = STR("window"),
     .doc = STR("A number."), .same_as = STR("hidden_size"), .min = {.type = LAMINA_KIND_INT},
     .max = {.type = LAMINA_KIND_INT, .v = {.i = 5}}},
#endif
#ifdef FAULT_IGNORED_FIRST
    {.size = sizeof(lamina_key_t), .type = LAMINA_KIND_STRING, .flags = LAMINA_KEY_IGNORED,
     .name = STR("window")},
    {.size = sizeof(lamina_key_t), .type = LAMINA_KIND_INT, .name = STR("window"),
     .doc = STR("A number."), .hf_name = STR("lamina.window")},
#endif
#ifdef FAULT_HOST_KEY
    INT_KEY("engram_layers", 0),
#endif
#ifdef FAULT_KEY_NAME
    INT_KEY("extra key", 0),
#endif
#ifdef FAULT_KEY_DOC
    {.size = sizeof(lamina_key_t), .type = LAMINA_KIND_INT, .name = STR("bare")},
#endif
#ifdef FAULT_KEY_DEFAULT
    {.size = sizeof(lamina_key_t), .type = LAMINA_KIND_INT, .name = STR("extra"),
     .doc = STR("A number."), .fallback = {.type = LAMINA_KIND_INT, .v = {.i = 0}},
     .min = {.type = LAMINA_KIND_INT, .v = {.i = 1}}},
#endif
};

static lamina_value_t get(const lamina_config_t *config, const char *key) {
  lamina_value_t out;
  memset(&out, 0, sizeof out);
  config->api->get(config, (lamina_str_t){key, strlen(key)}, &out);
  return out;
}
static int64_t integer(const lamina_config_t *config, const char *key) {
  return get(config, key).v.i;
}

static lamina_status_t derive(void *user, const lamina_config_t *config, lamina_reply_t *reply) {
  (void)user;
  const lamina_setting_t scale = {STR("logit_scale"), {.type = LAMINA_KIND_FLOAT, .v = {.f = 2}}};
  if (integer(config, "fault") == 119) return reply->api->set(reply, &scale);
#ifdef FAULT_INTEGERS
  const lamina_setting_t factor = {STR("factor"), {.type = LAMINA_KIND_INT, .v = {.i = 2}}};
  reply->api->set(reply, &factor);
#endif
#ifdef FAULT_IGNORED_FIRST
  const lamina_setting_t width = {STR("head_dim"), get(config, "window")};
  if (width.value.type) return reply->api->set(reply, &width);
#endif
  if (integer(config, "heads") == 0) return LAMINA_OK;
  const lamina_setting_t head_dim = {
      STR("head_dim"),
      {.type = LAMINA_KIND_INT,
       .v = {.i = integer(config, "fault") == 107
                      ? -5
                      : integer(config, "hidden_size") / integer(config, "heads")}}};
  return reply->api->set(reply, &head_dim);
}

static lamina_status_t validate(void *user, const lamina_config_t *config, lamina_reply_t *reply) {
  (void)user;
  const int64_t heads = integer(config, "heads");
  if (heads != 0 && integer(config, "hidden_size") % heads != 0)
    return reply->api->problem(reply, (lamina_str_t)STR("heads"),
                               (lamina_str_t)STR("got a number that does not divide hidden_size"),
                               AT);
  if (integer(config, "fault") == 103) get(config, "undeclared");
  if (integer(config, "fault") == 121) get(config, "cache");
  return LAMINA_OK;
}

static const lamina_host_t *kept_host;

static const void *extension(const char *id) {
  return kept_host->get_interface(kept_host, (lamina_str_t){id, strlen(id)});
}

/* Layers that read the keys and values of others, in ways that the contract forbids. */
static lamina_status_t bad_donors(lamina_reply_t *reply, int64_t fault) {
  const lamina_layer_sharing_api_t *sharing = extension(LAMINA_LAYER_SHARING_ID);
  if (fault == 109) return sharing->read_from(reply, 2, 0);
  if (fault == 115) return sharing->params_of(reply, 0, 0);
  if (fault == 116) {
    sharing->params_of(reply, 1, 0);
    return sharing->params_of(reply, 1, 0);
  }
  if (fault == 110) sharing->read_from(reply, 1, 0);
  return fault == 110 ? sharing->read_from(reply, 1, 0) : LAMINA_OK;
}

static lamina_status_t plan(void *user, const lamina_config_t *config, lamina_reply_t *reply) {
  (void)user;
  const int64_t fault = integer(config, "fault");
  if (fault == 100) return LAMINA_ERROR_INTERNAL;
  if (fault == 112) setenv("TINY_PLANS", "1", 1);
  if (fault == 104) return LAMINA_ERROR_MEMORY;
  if (fault == 108)
    ((const lamina_layer_sharing_api_t *)extension(LAMINA_LAYER_SHARING_ID))->read_from(reply, 0, 0);
  if (fault == 111)
    ((const lamina_export_api_t *)extension(LAMINA_EXPORT_ID))->as(reply, (lamina_str_t)STR("llama"));
  if (fault == 101)
    reply->api->fail(reply, LAMINA_ERROR_CONFIG, (lamina_str_t)STR("5 layers are too odd"), AT);
  const int64_t width = fault == 105 ? -1 : fault == 106 ? (int64_t)1 << 40 : 64;
  const lamina_setting_t overrides[] = {
      {STR("head_dim"), {.type = LAMINA_KIND_INT, .v = {.i = width}}}};
  const lamina_setting_t of_host[] = {
      {STR("logit_scale"), {.type = LAMINA_KIND_FLOAT, .v = {.f = 2}}}};
  const lamina_position_t unit[] = {
      {.size = sizeof(lamina_position_t), .block = fault == 102 ? 9 : 1,
       .overrides = {fault == 118 ? of_host : overrides, 1, sizeof overrides[0]}},
      {.size = sizeof(lamina_position_t), .block = 1}};
  const uint32_t layers = (uint32_t)integer(config, "num_hidden_layers");
  const lamina_segment_t pairs = {.size = sizeof pairs, .name = STR("pairs"), .unit = SPAN(unit),
                                  .times = layers / 2};
  const lamina_segment_t rest = {.size = sizeof rest, .name = STR("rest"),
                                 .unit = {unit, 1, sizeof unit[0]}, .times = 1};
  if (layers >= 2) reply->api->segment(reply, &pairs);
  if (bad_donors(reply, fault) != LAMINA_OK) return LAMINA_OK;
  return layers % 2 ? reply->api->segment(reply, &rest) : LAMINA_OK;
}

static lamina_status_t options(void *user, const lamina_config_t *config, lamina_reply_t *reply) {
  (void)user;
  const lamina_attr_t attrs[] = {
      {1, 0, {.type = LAMINA_KIND_FLOAT, .v = {.f = get(config, "norm_eps").v.f}}}};
  const lamina_embed_t embed = {.size = sizeof embed, .scale = 2, .init_std = 0.5};
  const lamina_norm_t norm = {.size = sizeof norm, .op = 62, .revision = 1, .attrs = SPAN(attrs)};
  const lamina_head_t head = {.size = sizeof head, .flags = LAMINA_HEAD_TIED, .norm = &norm};
  const int64_t fault = integer(config, "fault");
  const lamina_export_api_t *exports = extension(LAMINA_EXPORT_ID);
  const lamina_mtp_api_t *mtp = extension(LAMINA_MTP_ID);
  const lamina_mtp_t predict = {.size = sizeof predict,
                                .flags = fault == 117 ? LAMINA_MTP_CARRIES | LAMINA_MTP_NORMED_HIDDEN : 0,
                                .block = 1,
                                .depth = fault == 113 ? 65 : 1,
                                .weight_key = {"logit_scale", fault == 120 ? 11 : 0}};
  if (fault == 112) exports->as(reply, (lamina_str_t)STR("llama2"));
  if (fault == 112) exports->as(reply, (lamina_str_t)STR("llama2"));
  if (fault >= 113) mtp->predict(reply, &predict);
  if (fault == 114) mtp->predict(reply, &predict);
  reply->api->embed(reply, &embed);
  return reply->api->head(reply, &head);
}

/* ---- Block ----------------------------------------------------------------------------------- */

/* Across builds: what a plugin must not do. */
static lamina_tensor_t kept;
static lamina_build_t *kept_build;

static lamina_status_t emit(lamina_build_t *b, uint32_t op, const lamina_tensor_t *in, uint32_t n,
                            const lamina_attr_t *attrs, uint32_t n_attrs, lamina_tensor_t *out) {
  const lamina_emit_t use = {.size = sizeof use, .op = op, .revision = 1,
                             .inputs = {in, n, sizeof *in},
                             .attrs = {attrs, n_attrs, sizeof *attrs}, .outputs = out,
                             .n_outputs = 1};
  return b->api->emit(b, &use, AT);
}

static lamina_status_t param(lamina_build_t *b, const char *name, int64_t size,
                             lamina_tensor_t *out) {
  static const lamina_str_t axes[] = {STR(LAMINA_AXIS_NORM)};
  const int64_t dims[] = {size};
  const lamina_param_t desc = {.size = sizeof desc, .role = LAMINA_ROLE_NORM,
                               .name = {name, strlen(name)}, .dims = SPAN(dims),
                               .axes = SPAN(axes), .init = LAMINA_INIT_NORMAL, .init_a = 0.5,
                               .flags = LAMINA_PARAM_NO_DECAY};
  return b->api->param(b, &desc, AT, out);
}

#define INT_ATTR(key, value) {key, 0, {.type = LAMINA_KIND_INT, .v = {.i = value}}}
#define LIST_ATTR(key, array) {key, 0, {.type = LAMINA_KIND_INT_LIST, .v = {.list = SPAN(array)}}}

/* Ops with sizes that no tensor has. */
static void hostile_sizes(lamina_build_t *b, int64_t fault, lamina_tensor_t x) {
  static const int64_t negative[] = {-2, -4}, many[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  const int64_t huge = (int64_t)1 << 44;
  lamina_tensor_t out = 0;
  switch (fault) {
    case 30: emit(b, 42, &x, 1, (lamina_attr_t[]){INT_ATTR(1, 2), INT_ATTR(2, INT64_MAX - 3), INT_ATTR(3, 8)}, 3, &out); break;
    case 31: emit(b, 42, &x, 1, (lamina_attr_t[]){INT_ATTR(1, 2), INT_ATTR(2, huge), INT_ATTR(3, 8)}, 3, &out); break;
    case 32: emit(b, 45, 0, 0, (lamina_attr_t[]){LIST_ATTR(1, negative)}, 1, &out); break;
    case 33: emit(b, 40, &x, 1, (lamina_attr_t[]){LIST_ATTR(1, negative)}, 1, &out); break;
    case 34: emit(b, 45, 0, 0, (lamina_attr_t[]){LIST_ATTR(1, many)}, 1, &out); break;
    case 35: for (int i = 0; i < 1 << 19; ++i) emit(b, 1, (lamina_tensor_t[]){x, x}, 2, 0, 0, &out); break;
    case 36: emit(b, 47, &x, 1, (lamina_attr_t[]){INT_ATTR(1, 2), INT_ATTR(2, huge), INT_ATTR(3, huge)}, 3, &out); break;
    default: break;
  }
}

static int endless(volatile int *depth) {
  volatile char frame[4096];
  frame[0] = (char)++*depth;
  return endless(depth) + frame[0];
}

/* Ways to end the process, one to look as if it hung, and one to be in the way of its output. */
static void die(int64_t fault) {
  volatile int zero = 0;
  switch (fault) {
    case 50: abort();
    case 51: exit(3);
    case 52: *(volatile int *)(uintptr_t)zero = 1; break;
    case 53: endless(&zero); break;
    case 54: zero = 7 / zero; break;
    case 55: raise(SIGALRM); break;
    case 70: _exit(0);
    case 71: _Exit(0);
    case 72: quick_exit(0);
    case 73: printf("tiny is built\n"), fflush(stdout); break;
    default: break;
  }
}

/* Changes process state that belongs to the host. */
static void change_process(int64_t fault) {
  uint32_t mxcsr = 0;
  uint16_t x87 = 0;
  sigset_t signals;
  switch (fault) {
    case 80: if (chdir("/") != 0) abort(); break;
    case 81: setlocale(LC_ALL, "C.UTF-8"); break;
    case 82: setenv("TINY_WAS_HERE", "1", 1); break;
    case 83: unsetenv("PATH"); break;
    case 84: signal(SIGWINCH, SIG_IGN); break;
    case 85: sigemptyset(&signals), sigaddset(&signals, SIGWINCH), sigprocmask(SIG_BLOCK, &signals, 0); break;
#ifdef __x86_64__
    case 86: /* flush to zero, and round down */
      __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
      mxcsr |= 0x8000 | 0x2000;
      __asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
      break;
    case 87: /* double precision */
      __asm__ volatile("fnstcw %0" : "=m"(x87));
      x87 &= 0xfeff;
      __asm__ volatile("fldcw %0" : : "m"(x87));
      break;
#endif
    case 88: uselocale(newlocale(LC_ALL_MASK, "C.UTF-8", 0)); break;
    default: break;
  }
}

/* Losses and updates that are multiplied by a key that is no number, or the host's. */
static void bad_factor(lamina_build_t *b, int64_t fault, lamina_tensor_t weight) {
  const lamina_auxiliary_api_t *auxiliary = extension(LAMINA_AUXILIARY_ID);
  const lamina_str_t act = STR("act"), scale = STR("logit_scale");
  const lamina_auxiliary_t loss = {.size = sizeof loss, .kind = LAMINA_AUXILIARY_METRIC,
                                   .name = STR("loss"), .value = weight, .weight_key = fault == 37 ? act : scale,
                                   .reduce = LAMINA_REDUCE_SUM};
  const lamina_update_t update = {.size = sizeof update, .rule = LAMINA_UPDATE_ADD,
                                  .param = STR("inner.weight"), .value = weight,
                                  .rate_key = fault == 38 ? act : scale};
  if (fault == 37 || fault == 47) auxiliary->add(b, &loss, AT);
  if (fault == 38 || fault == 48) auxiliary->update(b, &update, AT);
}

static lamina_status_t build(void *user, lamina_build_t *b, const lamina_config_t *config,
                             const lamina_io_t *io) {
  (void)user;
  const int64_t fault = integer(config, "fault");
  const int64_t width = integer(config, "hidden_size");
  lamina_tensor_t in[2] = {io->carry_in[0], 0}, out = 0;
  lamina_attr_t attr = {1, 0, {.type = LAMINA_KIND_FLOAT, .v = {.f = 1e-6}}};
  lamina_state_t state = 0;
  static const lamina_str_t kv_axes[] = {STR(LAMINA_AXIS_CACHE_HEADS), STR(LAMINA_AXIS_CACHE_DIM)};
  static const int64_t kv_dims[] = {2, 4};
  const lamina_state_desc_t kv = {.size = sizeof kv, .kind = LAMINA_STATE_KV, .name = STR("kv"),
                                  .dims = SPAN(kv_dims), .axes = SPAN(kv_axes), .window = 7};

  b->api->scope(b, (lamina_str_t)STR("inner"), 1);
  if (fault == 13) return LAMINA_OK; /* leaves the scope open */
  param(b, "weight", fault == 12 ? width + 1 : width, &in[1]);
  b->api->state(b, &kv, AT, &state);
  switch (fault) {
    case 1: b->api->fail(b, LAMINA_ERROR_UNSUPPORTED, (lamina_str_t)STR("no luck"), AT); break;
    case 2: emit(b, 999, in, 2, &attr, 0, &out); break;
    case 3: in[1] = kept; break;
    case 4: emit(b, 62, in, 2, (lamina_attr_t[]){{9, 0, attr.value}}, 1, &out); break;
    case 5: attr.value.type = LAMINA_KIND_STRING, attr.value.v.s = (lamina_str_t)STR("x");
            emit(b, 62, in, 2, &attr, 1, &out); break;
    case 6: emit(b, 1014, in, 1, &attr, 0, &out); break; /* the host's own */
    case 7: param(b, "weight", width + 1, &out); break;
    case 49: { /* one name, two descriptions */
      static const lamina_str_t axes[] = {STR(LAMINA_AXIS_EMBED)};
      const int64_t dims[] = {width};
      const lamina_param_t other = {.size = sizeof other, .role = LAMINA_ROLE_BIAS,
                                    .name = STR("weight"), .dims = SPAN(dims), .axes = SPAN(axes),
                                    .init = LAMINA_INIT_ONES, .flags = LAMINA_PARAM_BUFFER,
                                    .dtype = LAMINA_DTYPE_F32, .group = STR("mine")};
      b->api->param(b, &other, AT, &out);
      break;
    }
    case 59: param(b, "weight", width, &out); break; /* again, with the same description */
    case 8: b->api->scope(b, (lamina_str_t)STR(""), 0); return LAMINA_ERROR_STATE;
    case 9: b->api->scope(b, (lamina_str_t)STR(""), 0); return LAMINA_OK; /* forgets the output */
    case 10: in[1] = state; break;
    case 11: in[1] = 12345; break;
    case 14: b->api->tag(b, in[0], (lamina_str_t)STR("query_prj"), AT, &out); break;
    case 15: b->api->state(b, &kv, AT, &state); break;
    case 16: attr.since = 40; emit(b, 62, in, 2, &attr, 1, &out); break;
    case 17: emit(b, 60, in, 1, &attr, 0, &out); break; /* linear without its weight */
    case 18: b->api->fail(b, LAMINA_ERROR_CONFIG, (lamina_str_t)STR("'act' cannot be tanh"), AT); break;
    case 19: get(config, "undeclared"); return LAMINA_ERROR_NOT_FOUND;
    case 46: get(config, "logit_scale"); break; /* the host's */
    case 20: { /* a struct of the future */
      struct { lamina_emit_t use; uint64_t more[8]; } big = {{.size = sizeof big, .op = 1, .revision = 1},
                                                             {0, 0, 0, 0, 0, 0, 0, 1}};
      b->api->emit(b, &big.use, AT);
      break;
    }
    case 21: /* the first failure is the one that counts */
      emit(b, 62, in, 2, (lamina_attr_t[]){{8, 0, attr.value}}, 1, &out);
      emit(b, 999, in, 2, &attr, 0, &out);
      break;
    case 23: case 24: case 25: case 26: case 28: case 42: { /* hostile parameters */
      const int64_t dims[] = {fault == 23 ? -4 : INT64_MAX / 2, INT64_MAX / 2};
      const lamina_str_t axes[] = {STR(LAMINA_AXIS_EMBED), STR(LAMINA_AXIS_EMBED)};
      lamina_param_t desc = {.size = sizeof desc, .name = STR("hostile"), .dims = SPAN(dims),
                             .axes = SPAN(axes), .init = LAMINA_INIT_NORMAL};
      static const int64_t small[] = {2, 2};
      if (fault >= 25) desc.dims = (lamina_span_t)SPAN(small);
      if (fault == 25) desc.init_a = __builtin_inf();
      if (fault == 26) desc.axes.count = 1;
      if (fault == 28) desc.init = LAMINA_INIT_CYCLE;
      if (fault == 42) desc._pad0 = 5;
      b->api->param(b, &desc, AT, &out);
      break;
    }
    case 27: { /* a span that cannot be */
      const lamina_emit_t use = {.size = sizeof use, .op = 1, .revision = 1,
                                 .inputs = {0, 4000000000u, 8}};
      b->api->emit(b, &use, AT);
      break;
    }
    case 29: { /* a slot for fewer than no tokens */
      lamina_state_desc_t sparse = kv;
      sparse.name = (lamina_str_t)STR("sparse");
      sparse.stride = -2;
      b->api->state(b, &sparse, AT, &state);
      break;
    }
    case 56: { /* inputs and outputs of a newer ops.def */
      const lamina_tensor_t inputs[] = {in[0], in[1], 0, 0};
      lamina_tensor_t outputs[] = {0, 7, 7};
      const lamina_emit_t use = {.size = sizeof use, .op = 1, .revision = 1, .inputs = SPAN(inputs),
                                 .outputs = outputs, .n_outputs = 3};
      b->api->emit(b, &use, AT);
      if (outputs[0] == 0 || outputs[1] != 0 || outputs[2] != 0) return LAMINA_ERROR_INTERNAL;
      break;
    }
    case 57: { /* an axis of a newer names.h */
      const lamina_str_t axes[] = {STR(""), STR(""), STR("act_embedd")};
      b->api->axes(b, in[0], (lamina_span_t)SPAN(axes), AT, &out);
      break;
    }
    case 39: b->api->tag(b, in[0], (lamina_str_t)STR("a\x1b[2Jb"), AT, &out); break;
    case 40: b->api->fail(b, LAMINA_ERROR_INTERNAL, (lamina_str_t)STR("a\x1b[2Jb"), AT); break;
    case 43: attr.value._pad0 = 5; emit(b, 62, in, 2, &attr, 1, &out); break;
    case 45: /* a parameter of the host's name */
      b->api->scope(b, (lamina_str_t)STR(""), 0);
      param(b, "engram.weight", width, &out);
      b->api->scope(b, (lamina_str_t)STR("inner"), 1);
      break;
    case 44: attr.value.v.f = 0; emit(b, 62, in, 2, &attr, 1, &out); break; /* a norm without eps */
    case 41: if (kept_build) return kept_build->api->scope(kept_build, (lamina_str_t)STR("x"), 1); break;
    case 58: emit(b, LAMINA_DRAFT_OPS, in, 2, 0, 0, &out); break;
    default: hostile_sizes(b, fault, in[0]), bad_factor(b, fault, in[1]), change_process(fault), die(fault); break;
  }
  kept_build = b;
  emit(b, 1, in, 2, &attr, 0, &out);
  if (fault == 22) emit(b, 50, &out, 1, (lamina_attr_t[]){{1, 0, {.type = LAMINA_KIND_INT_LIST,
      .v = {.list = {(const int64_t[]){2}, 1, 8}}}}}, 1, &out); /* another shape */
  const lamina_status_t status = b->api->tag(
      b, out, (lamina_str_t)STR(LAMINA_TAG_OUT_PROJ), AT, &out);
  b->api->scope(b, (lamina_str_t)STR(""), 0);
  kept = out;
  io->carry_out[0] = out;
  return status;
}

/* ---- Registration ---------------------------------------------------------------------------- */

static const lamina_block_t kBlocks[] = {
    {.size = sizeof(lamina_block_t), .id = 1, .name = STR("layer"), .build = build},
#ifdef FAULT_BLOCK_TWICE
    {.size = sizeof(lamina_block_t), .id = 1, .name = STR("other"), .build = build},
#endif
};
static const lamina_transform_t kPlusOne[] = {
    {sizeof(lamina_transform_t), LAMINA_TRANSFORM_ADD, 1.0}};
static const lamina_hf_tensor_t kTensors[] = {
    {.size = sizeof(lamina_hf_tensor_t), .block = 1, .param = STR("inner.weight"),
     .hf = STR("layers.{L}.weight"), .transforms = SPAN(kPlusOne)},
    {.size = sizeof(lamina_hf_tensor_t), .param = STR(LAMINA_NAME_EMBED), .hf = STR("wte")},
    {.size = sizeof(lamina_hf_tensor_t), .hf = STR("*.mask"), .flags = LAMINA_HF_IGNORE},
};
static const lamina_str_t kAliases[] = {STR(FAMILY "_alias")};
static const lamina_str_t kTypes[] = {STR(FAMILY "_type")};
static const lamina_str_t kArchitectures[] = {STR("TinyForCausalLM")};

static const lamina_family_t kFamilies[] = {{
    .size = sizeof(lamina_family_t),
#ifdef FAULT_FAMILY_NAME
    .name = STR("another"),
#else
    .name = STR(FAMILY),
#endif
    .doc = STR("A tiny family."),
    .aliases = SPAN(kAliases),
    .hf_model_types = SPAN(kTypes),
    .hf_architectures = SPAN(kArchitectures),
    .keys = SPAN(kKeys),
    .blocks = SPAN(kBlocks),
    .hf_tensors = SPAN(kTensors),
    .derive = derive,
    .validate = validate,
#ifndef FAULT_NO_PLAN
    .plan = plan,
#endif
    .options = options,
}};
static const lamina_families_t kInterface = {.size = sizeof(lamina_families_t),
                                             .families = SPAN(kFamilies)};

static lamina_status_t tiny_init(const lamina_host_t *host) {
  kept_host = host;
#ifdef FAULT_INIT
  return LAMINA_ERROR_UNSUPPORTED;
#else
#ifdef FAULT_INIT_PRINTS
  puts("tiny is here");
#endif
#ifdef FAULT_INIT_ENVIRONMENT
  setenv("TINY_STARTED", "1", 1);
#endif
#ifdef FAULT_INIT_SAYS
  host->log(host, LAMINA_LOG_ERROR, (lamina_str_t)STR("blocks are missing"), 0);
  return LAMINA_ERROR_INTERNAL;
#endif
#ifdef FAULT_INIT_THREADS
  /* Not a fault of the plugin: it refuses to start beside other threads. */
  int entries = 0;
  DIR *tasks = opendir("/proc/self/task");
  while (tasks && readdir(tasks)) ++entries;
  if (tasks) closedir(tasks);
  if (entries != 3) { /* ".", ".." and this thread */
    host->log(host, LAMINA_LOG_ERROR, (lamina_str_t)STR("other threads run"), 0);
    return LAMINA_ERROR_INTERNAL;
  }
#endif
#ifdef FAULT_INIT_FILE
  if (dup(2) < 0) return LAMINA_ERROR_INTERNAL;
#endif
  const int right = host->capability(host, LAMINA_CAPABILITY_OP, 62, 1) == 1 &&
                    host->capability(host, LAMINA_CAPABILITY_OP, 62, 9) == 0 &&
                    host->capability(host, LAMINA_CAPABILITY_STATE, LAMINA_STATE_KV, 0) == 1 &&
                    host->capability(host, LAMINA_CAPABILITY_STATE, 99, 0) == 0 &&
                    host->capability(host, 77, 1, 0) == 0 &&
                    host->get_interface(host, (lamina_str_t)STR("lamina.mtp/2")) == NULL;
  return right ? LAMINA_OK : LAMINA_ERROR_INTERNAL;
#endif
}
static void tiny_deinit(void) {}
static const void *tiny_interface(lamina_str_t id) {
#ifdef FAULT_NO_FAMILIES
  (void)id;
  return 0;
#else
  return id.len == strlen(LAMINA_FAMILIES_ID) && !memcmp(id.ptr, LAMINA_FAMILIES_ID, id.len)
             ? &kInterface
             : 0;
#endif
}

#ifdef FAULT_UNDEFINED_SYMBOL
extern int a_function_that_nobody_has(void);
int call_it(void) { return a_function_that_nobody_has(); }
__attribute__((used)) static int (*const kCall)(void) = a_function_that_nobody_has;
#endif

#ifdef FAULT_TWO_EXPORTS
__attribute__((visibility("default"))) int one_more(void) { return 1; }
#endif

#ifdef FAULT_NO_ENTRY
#define lamina_plugin_v0 plugin_without_a_name
static __attribute__((used))
#else
__attribute__((visibility("default")))
#endif
const lamina_plugin_t lamina_plugin_v0 = {
#ifdef FAULT_ENTRY_FLAGS
    .flags = 0xff00,
#endif
#ifdef FAULT_MAGIC
    .magic = 7,
#else
    .magic = LAMINA_PLUGIN_MAGIC,
#endif
#ifdef FAULT_ENTRY_SIZE
    .size = 16,
#else
    .size = sizeof(lamina_plugin_t),
#endif
    .abi_major = LAMINA_ABI_MAJOR,
#if defined(FAULT_ENTRY_ABI)
    .abi_built = 4,
#elif defined(FAULT_ENTRY_MINOR)
    .abi_built = LAMINA_ABI_MINOR + 1,
#else
    .abi_built = LAMINA_ABI_MINOR,
#endif
#ifdef FAULT_ENTRY_ID
    .id = STR("org.example.liar"),
#else
    .id = STR(PLUGIN_ID),
#endif
    .version = STR("1.0"),
    .init = tiny_init,
    .deinit = tiny_deinit,
    .get_interface = tiny_interface,
};
