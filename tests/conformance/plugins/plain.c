/* A plugin in plain C that keeps to the contract: one family, one block, y = x + W norm(x). FAULT_*
 * breaks one rule, and nothing else. */
#define _GNU_SOURCE
#include "lamina/abi.h"
#include "lamina/ext/custom_ops.h"
#include "lamina/names.h"

#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STR(text) {"" text, sizeof(text) - 1}
#define SPAN(array) {array, sizeof(array) / sizeof((array)[0]), sizeof((array)[0])}
#define AT \
  &(const lamina_where_t) { STR("plugins/plain/plain.c"), __LINE__, 0 }

#ifdef FAULT_NO_DOC
#define DOC ""
#else
#define DOC "One matrix per layer."
#endif

__attribute__((section(LAMINA_MANIFEST_SECTION), used)) static const char manifest[] =
    "{\"id\": \"org.example.plain\", \"version\": \"1.0\", \"abi_major\": 0, \"abi_built\": " ABI_MINOR_TEXT
    ", \"abi_min_host\": 0, \"arch\": \"x86_64\", \"families\": [{\"name\": \"plain\", \"doc\": \"" DOC
    "\", \"aliases\": [], \"hf_model_types\": [\"plain\"], \"hf_architectures\": "
    "[\"PlainForCausalLM\"]}]}";

/* ---- Config ---------------------------------------------------------------------------------- */

#define INT_KEY(text)                                                                    \
  {.size = sizeof(lamina_key_t), .type = LAMINA_KIND_INT, .flags = LAMINA_KEY_REQUIRED, \
   .name = STR(text), .doc = STR("A number."), .min = {.type = LAMINA_KIND_INT, .v = {.i = 1}}}

static const lamina_key_t kKeys[] = {INT_KEY("vocab_size"), INT_KEY("hidden_size"),
                                     INT_KEY("num_hidden_layers")};

static int64_t integer(const lamina_config_t *config, const char *key) {
  lamina_value_t out;
  memset(&out, 0, sizeof out);
  config->api->get(config, (lamina_str_t){key, strlen(key)}, &out);
  return out.v.i;
}

static lamina_status_t plan(void *user, const lamina_config_t *config, lamina_reply_t *reply) {
  (void)user;
#ifdef FAULT_ENDLESS_PLAN
  for (volatile int i = 0;; ++i) {}
#endif
  const lamina_position_t unit[] = {{.size = sizeof(lamina_position_t), .block = 1}};
  const lamina_segment_t all = {.size = sizeof all, .name = STR("all"), .unit = SPAN(unit),
                                .times = (uint32_t)integer(config, "num_hidden_layers")};
  return reply->api->segment(reply, &all);
}

static lamina_status_t options(void *user, const lamina_config_t *config, lamina_reply_t *reply) {
  (void)user, (void)config;
  const lamina_norm_t norm = {.size = sizeof norm, .op = 62, .revision = 1};
  const lamina_head_t head = {.size = sizeof head, .norm = &norm};
  return reply->api->head(reply, &head);
}

/* ---- Block ----------------------------------------------------------------------------------- */

static lamina_status_t emit(lamina_build_t *b, uint32_t op, const lamina_tensor_t *in,
                            lamina_tensor_t *out) {
  const lamina_emit_t use = {.size = sizeof use, .op = op, .revision = 1,
                             .inputs = {in, 2, sizeof *in}, .outputs = out, .n_outputs = 1};
  return b->api->emit(b, &use, AT);
}

static lamina_status_t param(lamina_build_t *b, const char *name, uint32_t role, int64_t rows,
                             int64_t columns, lamina_tensor_t *out) {
  static const lamina_str_t axes[] = {STR(LAMINA_AXIS_EMBED), STR(LAMINA_AXIS_EMBED)};
  static const lamina_str_t gain[] = {STR(LAMINA_AXIS_NORM)};
  const int64_t dims[] = {rows, columns};
  const int is_gain = columns == 0;
  lamina_param_t desc;
  memset(&desc, 0, sizeof desc);
  desc.size = sizeof desc;
  desc.role = role;
  desc.name = (lamina_str_t){name, strlen(name)};
  desc.dims = (lamina_span_t){dims, is_gain ? 1 : 2, sizeof *dims};
  desc.axes = (lamina_span_t){is_gain ? gain : axes, is_gain ? 1 : 2, sizeof *axes};
  desc.init = is_gain ? LAMINA_INIT_ONES : LAMINA_INIT_NORMAL;
  desc.init_a = is_gain ? 0 : 0.1;
  return b->api->param(b, &desc, AT, out);
}

#if defined FAULT_THREAD || defined FAULT_BUILD_THREAD || defined FAULT_KERNEL_THREAD
/* The thread begins in the C library: the plugin may be unloaded before it runs. */
static void start_thread(void) {
  pthread_t thread;
  pthread_create(&thread, 0, (void *(*)(void *))(void (*)(void))pause, 0);
}
#endif

/* Process state that a build changes or uses. */
static void spoil_process(void) {
#ifdef FAULT_CHDIR
  if (chdir("/") != 0) printf("no /\n");
#endif
#ifdef FAULT_LOCALE
  setlocale(LC_ALL, "C.UTF-8");
#endif
#ifdef FAULT_ENVIRONMENT
  setenv("PLAIN_WAS_HERE", "1", 1);
#endif
#if defined FAULT_ROUNDING && defined __x86_64__
  unsigned control = 0;
  __asm__ volatile("stmxcsr %0" : "=m"(control));
  control |= 0xa040; /* flush to zero, take subnormals for zero, round down */
  __asm__ volatile("ldmxcsr %0" : : "m"(control));
#endif
#ifdef FAULT_FORK
  if (fork() == 0) {
    setsid();
    sleep(3600);
    _exit(0);
  }
#endif
#ifdef FAULT_BUILD_THREAD
  static int started;
  if (!started++) start_thread();
#endif
#ifdef FAULT_OPEN_FILE
  if (!fopen("/dev/null", "r")) printf("no /dev/null\n");
#endif
#ifdef FAULT_BUILD_MEMORY
  static void *volatile lost;
  lost = malloc(1 << 20);
#endif
#ifdef FAULT_WRITES_FILE
  FILE *file = fopen("/dev/null", "w");
  if (file) fputs("plain is built\n", file), fclose(file);
#endif
#ifdef FAULT_SLEEPS
  sleep(3600);
#endif
#ifdef FAULT_CLOSES_AND_SLEEPS
  for (int descriptor = 0; descriptor < 64; ++descriptor) close(descriptor);
  sleep(3600);
#endif
}

#if defined FAULT_CUSTOM_OP || defined FAULT_KERNEL_CRASH || defined FAULT_KERNEL_THREAD || \
    defined FAULT_KERNEL_MEMORY || defined FAULT_KERNEL_PRINTS || defined FAULT_KERNEL_ROUNDING
#define HAS_CUSTOM_OP
/* plain.doubled: 2 x, with kernels for float32. */
static lamina_status_t doubled(void *user, lamina_build_t *b, const lamina_lowering_t *use) {
  const lamina_tensor_t *x = use->inputs.ptr;
  (void)user;
  return emit(b, 1, (lamina_tensor_t[]){*x, *x}, use->outputs);
}

static void double_all(const lamina_buffer_t *from, const lamina_buffer_t *to) {
  int64_t count = 1;
  for (uint32_t d = 0; d < from->ndim; ++d) count *= from->dims[d];
  for (int64_t i = 0; i < count; ++i) ((float *)to->data)[i] = 2 * ((const float *)from->data)[i];
}
static lamina_status_t run(void *user, const lamina_kernel_call_t *call) {
  (void)user;
#ifdef FAULT_KERNEL_CRASH
  *(volatile int *)(uintptr_t)(call->workspace_bytes) = 1;
#endif
#ifdef FAULT_KERNEL_THREAD
  start_thread();
#endif
#ifdef FAULT_KERNEL_MEMORY
  static void *volatile lost;
  lost = malloc(1 << 10);
#endif
#ifdef FAULT_KERNEL_PRINTS
  printf("plain runs\n");
#endif
#if defined FAULT_KERNEL_ROUNDING && defined __x86_64__
  unsigned control = 0;
  __asm__ volatile("stmxcsr %0" : "=m"(control));
  control |= 0x8000;
  __asm__ volatile("ldmxcsr %0" : : "m"(control));
#endif
  double_all(call->inputs.ptr, call->outputs.ptr);
  return LAMINA_OK;
}
static lamina_status_t run_back(void *user, const lamina_kernel_call_t *call) {
  (void)user;
  double_all(call->output_gradients.ptr, call->input_gradients.ptr);
  return LAMINA_OK;
}

static const lamina_kernel_t kForward = {
    .size = sizeof kForward, .dtypes = 1u << LAMINA_DTYPE_F32, .run = run};
static const lamina_kernel_t kBackward = {
    .size = sizeof kBackward, .dtypes = 1u << LAMINA_DTYPE_F32, .run = run_back};
static const lamina_custom_op_t kOps[] = {{.size = sizeof(lamina_custom_op_t),
                                           .name = STR("plain.doubled"),
                                           .doc = STR("2 x"),
                                           .inputs = STR("x"),
                                           .outputs = STR("y"),
                                           .lower = doubled,
                                           .forward = &kForward,
                                           .backward = &kBackward}};
static const lamina_custom_ops_t kCustomOps = {.size = sizeof kCustomOps, .ops = SPAN(kOps)};
#endif

static lamina_status_t build(void *user, lamina_build_t *b, const lamina_config_t *config,
                             const lamina_io_t *io) {
  (void)user;
  const int64_t width = integer(config, "hidden_size");
  lamina_tensor_t gain = 0, matrix = 0, out = 0;
#ifdef FAULT_CRASH
  *(volatile int *)(uintptr_t)(width - width) = 1;
#endif
#ifdef FAULT_EXITS
  _exit(0);
#endif
#ifdef FAULT_CHATTY
  printf("plain is built\n");
#endif
#ifdef FAULT_ALL_MEMORY
  /* One page of each: the limit counts addresses, and a busy machine takes long to fill 4 GiB. */
  for (;;) *(volatile char *)malloc(1 << 26) = 1;
#endif
#ifdef FAULT_NEEDS_HOME
  if (strlen(getenv("HOME")) == 0) return LAMINA_ERROR_INTERNAL;
#endif
  spoil_process();
  lamina_status_t status = param(b, "norm", LAMINA_ROLE_NORM, width, 0, &gain);
  if (status == LAMINA_OK) status = param(b, "matrix", LAMINA_ROLE_WEIGHT, width, width, &matrix);
  if (status == LAMINA_OK)
    status = emit(b, 62, (lamina_tensor_t[]){io->carry_in[0], gain}, &out);
#ifdef FAULT_IGNORES_FAILURES
  status = LAMINA_OK;
#endif
  if (status == LAMINA_OK) status = emit(b, 60, (lamina_tensor_t[]){out, matrix}, &out);
#ifdef HAS_CUSTOM_OP
  const lamina_emit_t twice = {.size = sizeof twice, .op = LAMINA_CUSTOM_OPS,
                               .inputs = {&out, 1, sizeof out}, .outputs = &out, .n_outputs = 1};
  if (status == LAMINA_OK) status = b->api->emit(b, &twice, AT);
#endif
  if (status == LAMINA_OK) status = emit(b, 1, (lamina_tensor_t[]){io->carry_in[0], out}, &out);
#ifdef FAULT_PROCESS
  const lamina_attr_t by = {1, 0, {.type = LAMINA_KIND_FLOAT, .v = {.f = 1 + 1e-6 * getpid()}}};
  const lamina_emit_t scale = {.size = sizeof scale, .op = 28, .revision = 1,
                               .inputs = {&out, 1, sizeof out}, .attrs = {&by, 1, sizeof by},
                               .outputs = &out, .n_outputs = 1};
  if (status == LAMINA_OK) status = b->api->emit(b, &scale, AT);
#endif
#ifdef FAULT_IGNORES_FAILURES
  status = LAMINA_OK;
#endif
  if (status == LAMINA_OK) io->carry_out[0] = out;
  return status;
}

/* ---- Registration ---------------------------------------------------------------------------- */

static const lamina_block_t kBlocks[] = {
    {.size = sizeof(lamina_block_t), .id = 1, .name = STR("layer"), .build = build}};
static const lamina_hf_tensor_t kTensors[] = {
    {.size = sizeof(lamina_hf_tensor_t), .block = 1, .param = STR("norm"),
     .hf = STR("layers.{L}.norm")},
    {.size = sizeof(lamina_hf_tensor_t), .block = 1, .param = STR("matrix"),
     .hf = STR("layers.{L}.matrix")},
    {.size = sizeof(lamina_hf_tensor_t), .param = STR(LAMINA_NAME_EMBED), .hf = STR("embed")},
    {.size = sizeof(lamina_hf_tensor_t), .param = STR(LAMINA_NAME_NORM), .hf = STR("norm")},
    {.size = sizeof(lamina_hf_tensor_t), .param = STR(LAMINA_NAME_HEAD), .hf = STR("head")},
};
static const lamina_str_t kTypes[] = {STR("plain")};
static const lamina_str_t kArchitectures[] = {STR("PlainForCausalLM")};
static const lamina_family_t kFamilies[] = {{
#ifdef FAULT_STRUCT_SIZE
    .size = 8,
#else
    .size = sizeof(lamina_family_t),
#endif
#ifdef FAULT_OTHER_FAMILY
    .name = STR("plain_too"),
#else
    .name = STR("plain"),
#endif
    .doc = STR(DOC),
    .hf_model_types = SPAN(kTypes),
    .hf_architectures = SPAN(kArchitectures),
    .keys = SPAN(kKeys),
    .blocks = SPAN(kBlocks),
    .hf_tensors = SPAN(kTensors),
    .plan = plan,
    .options = options,
}};
static const lamina_families_t kInterface = {.size = sizeof(lamina_families_t),
                                             .families = SPAN(kFamilies)};

/* ---- Entry ----------------------------------------------------------------------------------- */

static unsigned uses;

#ifdef FAULT_CONSTRUCTOR
__attribute__((constructor)) static void prepare(void) { uses = 0; }
#endif
#ifdef FAULT_SIGNAL
static void on_signal(int number) { (void)number; }
#endif

static lamina_status_t start(const lamina_host_t *host) {
  (void)host;
#ifdef FAULT_INIT_CRASH
  *(volatile int *)(uintptr_t)uses = 1; /* as a crash in keys() of the SDK */
#endif
#ifdef FAULT_PRINTS
  fputs("plain is here\n", stderr);
#endif
#ifdef FAULT_SLOW
  for (const clock_t end = clock() + CLOCKS_PER_SEC / 2; clock() < end;) {}
#endif
#ifdef FAULT_THREAD
  start_thread();
#endif
#ifdef FAULT_SIGNAL
  signal(SIGWINCH, on_signal);
#endif
#ifdef FAULT_OLD_HOSTS_END
  /* A host of another version may have data there. */
  if (((const volatile uint64_t *)(host + 1))[0] == 1) return LAMINA_ERROR_ABI;
#endif
#ifdef FAULT_NEWER_HOST
  if (host->abi_minor < LAMINA_ABI_MINOR) return LAMINA_ERROR_ABI;
#endif
#ifdef FAULT_EXACT_HOST
  if (host->size != sizeof(lamina_host_t)) return LAMINA_ERROR_ABI;
#endif
#ifdef FAULT_LEAKS
  static void *volatile lost;
  lost = malloc(4096);
#endif
#ifdef FAULT_TWINS
  pthread_setname_np(pthread_self(), "plain has begun");
#endif
  ++uses;
  return LAMINA_OK;
}

static void stop(void) {
#ifdef FAULT_NO_NESTING
  uses = 0;
#else
  if (uses > 0) --uses;
#endif
#ifdef FAULT_TWINS
  if (uses == 0) pthread_setname_np(pthread_self(), "lamina");
#endif
}

static const void *interface_of(lamina_str_t id) {
#ifdef FAULT_TWINS
  char name[16];
  if (pthread_getname_np(pthread_self(), name, sizeof name) || strcmp(name, "plain has begun"))
    return 0;
#elif !defined FAULT_CONSTANT_TABLES /* which is no fault: the host does not ask before init */
  if (uses == 0) return 0;
#endif
#ifdef HAS_CUSTOM_OP
  if (id.len == strlen(LAMINA_CUSTOM_OPS_ID) && !memcmp(id.ptr, LAMINA_CUSTOM_OPS_ID, id.len))
    return &kCustomOps;
#endif
#ifdef FAULT_ANY_INTERFACE
  return id.len >= 15 && !memcmp(id.ptr, LAMINA_FAMILIES_ID, 15) ? &kInterface : 0;
#else
  return id.len == strlen(LAMINA_FAMILIES_ID) && !memcmp(id.ptr, LAMINA_FAMILIES_ID, id.len)
             ? &kInterface
             : 0;
#endif
}

__attribute__((visibility("default"))) const lamina_plugin_t lamina_plugin_v0 = {
    .magic = LAMINA_PLUGIN_MAGIC,
    .size = sizeof(lamina_plugin_t),
    .abi_major = LAMINA_ABI_MAJOR,
    .abi_built = LAMINA_ABI_MINOR,
    .id = STR("org.example.plain"),
    .version = STR("1.0"),
    .init = start,
    .deinit = stop,
    .get_interface = interface_of,
};

#ifdef FAULT_ABORT
__attribute__((used)) static void (*const kAbort)(void) = abort;
#endif
#ifdef FAULT_TWO_EXPORTS
__attribute__((visibility("default"))) int one_more(void) { return 1; }
#endif
