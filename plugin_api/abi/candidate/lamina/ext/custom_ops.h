/* Ops of a plugin's own: a name for a composition of ordinary ops and, where the plugin has them,
 * kernels that compute it faster. The plugin interface LAMINA_CUSTOM_OPS_ID, which the host asks
 * for with get_interface(); the host interface of the same id says what the host runs. */
#ifndef LAMINA_EXT_CUSTOM_OPS_H
#define LAMINA_EXT_CUSTOM_OPS_H

#include "lamina/abi.h"
#include "lamina/names.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LAMINA_CUSTOM_OPS_ID "lamina.custom_ops/1"

/* ---- Lowering: what an op is ------------------------------------------------------------------
 */

/* One use of the op, while its lowering is built. */
typedef struct lamina_lowering {
  uint32_t size, _pad0;
  lamina_span_t inputs;     /* lamina_tensor_t, one per input of the row; 0 where absent */
  lamina_span_t attrs;      /* lamina_value_t, one per attribute of the row, defaults too */
  lamina_tensor_t* outputs; /* written: n_outputs of them, one per output of the row */
  uint32_t n_outputs, _pad1;
} lamina_lowering_t;

/* ---- Kernels: how it may be computed faster ---------------------------------------------------
 */

/* A tensor in memory, dense and row-major, as its strides say. Absent: dtype 0. */
typedef struct lamina_buffer {
  void* data;
  uint32_t dtype, ndim; /* LAMINA_DTYPE_*; bool is a byte, 0 or 1 */
  int64_t dims[LAMINA_MAX_DIMS];
  int64_t strides[LAMINA_MAX_DIMS]; /* in elements */
} lamina_buffer_t;

typedef struct lamina_kernel_call lamina_kernel_call_t;

/* Both during run() only, on the thread that run() is called on. */
typedef struct lamina_kernel_api {
  uint32_t size, _pad0;
  /* task(context, i) for each i below `count`, in any order and on several threads; returns when
   * all have. How many threads there are is not said: results depend on the tasks alone. Tasks
   * write apart from each other and call nothing of the host. */
  void (*parallel_for)(const lamina_kernel_call_t* call, uint64_t count,
                       void (*task)(void* context, uint64_t i), void* context);
  /* Why run() is about to return another status than LAMINA_OK. */
  void (*fail)(const lamina_kernel_call_t* call, lamina_str_t message);
} lamina_kernel_api_t;

/* One run. Spans are of lamina_buffer_t; results are written whole, and nothing else is. */
struct lamina_kernel_call {
  uint32_t size, _pad0;
  const lamina_kernel_api_t* api;
  lamina_span_t inputs; /* one per input of the row */
  /* One per output of the row. Forward: written. Backward: those of the forward pass, where the
   * kernel has the flag LAMINA_KERNEL_READS_OUTPUTS, else absent. */
  lamina_span_t outputs;
  /* Backward only. One per output, read; absent where the loss does not depend on it. One per
   * input, written, in the type that the gradient of the lowering has: that of the input, or
   * float32; absent for inputs that are absent or no floating-point numbers. */
  lamina_span_t output_gradients, input_gradients;
  lamina_span_t attrs; /* lamina_value_t, one per attribute of the row, defaults too */
  /* 64-byte aligned, as many bytes as prepare() asked for; not zeroed. */
  void* workspace;
  uint64_t workspace_bytes;
  /* Of an op whose lowering keeps decode state. i32[B, T]: the place of each token in its document,
   * where the lowering reads it; and the document, from 1 (0: padding), absent where each row is
   * one document. A state begins as zeros in each document. */
  const lamina_buffer_t *positions, *segments; /* null: absent */
  /* While decoding only: the states in the order in which the lowering declares them, [B, dims...],
   * before the call (read) and after it (written). i32[B]: `start` tokens came before this call,
   * with 0 the state is zeros whatever it holds; only the first `count` tokens of the row are real,
   * the others change no state and their results are not read. */
  lamina_span_t states_before, states_after;
  const lamina_buffer_t *start, *count; /* null: absent */
};

/* Kernels run on any thread, several at once, and have no state: what they give follows from the
 * call, to the bit, whatever the number of threads. They do not allocate, start threads or throw.
 */
typedef struct lamina_kernel {
  uint32_t size, flags; /* LAMINA_KERNEL_* */
  /* Bit LAMINA_DTYPE_x: it takes that type. The kernel is used where all floating-point inputs,
   * results and gradients have such types, else the lowering. */
  uint64_t dtypes;
  void* user; /* handed to both functions */
  /* Called with buffers that have no data, when a program is made; null: any shape, no workspace.
   * With LAMINA_ERROR_UNSUPPORTED the lowering is used for these shapes. [any] */
  lamina_status_t (*prepare)(void* user, const lamina_kernel_call_t* call,
                             uint64_t* workspace_bytes);
  /* Not called where all results are empty. */
  lamina_status_t (*run)(void* user, const lamina_kernel_call_t* call);
} lamina_kernel_t;

#define LAMINA_KERNEL_READS_OUTPUTS 1u /* a backward kernel is given the outputs too */

/* ---- Ops --------------------------------------------------------------------------------------
 */

/* An op. A block emits element i of the table as number LAMINA_CUSTOM_OPS + i, revision 0, without
 * a state; attributes are numbered as in the row. */
typedef struct lamina_custom_op {
  uint32_t size, _pad0;
  /* "<family or vendor>.<op>", letters, digits, '_', '-', unique in the plugin. */
  lamina_str_t name;
  lamina_str_t doc; /* one line, for lists */
  /* In the notation of ops.def: "x gate?", "y", "beta:f=1 kind:s". The first input is never absent;
   * none is '*'. Letters of kinds: i b f s il fl. */
  lamina_str_t inputs, outputs, attrs;
  void* user; /* handed to lower */
  /* What the op means, in ordinary ops, from its inputs alone: no parameters, inputs of the block,
   * tags, losses, updates, random or custom ops. It may keep decode state, which it declares itself
   * (regions over time too). Shapes, the gradient, and decoding follow from it. A pure function of
   * the types of inputs and the attributes, called for each use. [trace] */
  lamina_status_t (*lower)(void* user, lamina_build_t* build, const lamina_lowering_t* use);
  /* Null: there is none. Without a backward kernel the gradient is that of the lowering, computed
   * again from the inputs. While decoding, an op that keeps keys and values is always its lowering.
   */
  const lamina_kernel_t *forward, *backward;
} lamina_custom_op_t;

/* What the plugin answers. */
typedef struct lamina_custom_ops {
  uint32_t size, _pad0;
  lamina_span_t ops; /* lamina_custom_op_t */
} lamina_custom_ops_t;

/* What the host answers; a host without it has no custom ops. */
typedef struct lamina_custom_ops_api {
  uint32_t size, _pad0;
  uint64_t devices; /* LAMINA_DEVICE_*: those whose kernels it runs */
} lamina_custom_ops_api_t;

#define LAMINA_DEVICE_CPU 1u

LAMINA_STATIC_ASSERT(sizeof(lamina_buffer_t) == 144, "frozen");

#define LAMINA_CUSTOM_OPS_GROWABLE(X) \
  X(lamina_lowering_t, 56)            \
  X(lamina_kernel_api_t, 24)          \
  X(lamina_kernel_call_t, 176)        \
  X(lamina_kernel_t, 40)              \
  X(lamina_custom_op_t, 120)          \
  X(lamina_custom_ops_t, 24)          \
  X(lamina_custom_ops_api_t, 16)
LAMINA_CUSTOM_OPS_GROWABLE(LAMINA_LEAST_SIZE)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LAMINA_EXT_CUSTOM_OPS_H */
