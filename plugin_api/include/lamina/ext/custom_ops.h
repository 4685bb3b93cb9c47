/* Custom ops: a name for a composition of ordinary ops, with optional kernels that compute it
 * faster. The plugin interface LAMINA_CUSTOM_OPS_ID, which the host requests with get_interface();
 * the host interface of the same id gives the devices whose kernels the host runs. */
#ifndef LAMINA_EXT_CUSTOM_OPS_H
#define LAMINA_EXT_CUSTOM_OPS_H

#include "lamina/abi.h"
#include "lamina/names.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LAMINA_CUSTOM_OPS_ID "lamina.custom_ops/1"

/* ---- Lowering: the definition of an op --------------------------------------------------------
 */

/* One use of the op, during a call of lower(). */
typedef struct lamina_lowering {
  uint32_t size, _pad0;
  lamina_span_t inputs;     /* lamina_tensor_t, one per input of the row; 0 where absent */
  lamina_span_t attrs;      /* lamina_value_t, one per attribute of the row, defaults too */
  lamina_tensor_t* outputs; /* written: n_outputs of them, one per output of the row */
  uint32_t n_outputs, _pad1;
} lamina_lowering_t;

/* ---- Kernels: a faster computation of an op ---------------------------------------------------
 */

/* A tensor in memory, dense and row-major. dtype 0 if absent. */
typedef struct lamina_buffer {
  void* data;
  uint32_t dtype, ndim; /* LAMINA_DTYPE_*; bool is a byte, 0 or 1 */
  int64_t dims[LAMINA_MAX_DIMS];
  int64_t strides[LAMINA_MAX_DIMS]; /* in elements */
} lamina_buffer_t;

typedef struct lamina_kernel_call lamina_kernel_call_t;

/* Both only during run(), on the thread that called run(). */
typedef struct lamina_kernel_api {
  uint32_t size, _pad0;
  /* Calls task(context, i) for each i below `count`, in any order and on several threads; returns
   * after the last one. Results must not depend on the number of threads. Tasks must write to
   * separate memory and must not call the host. */
  void (*parallel_for)(const lamina_kernel_call_t* call, uint64_t count,
                       void (*task)(void* context, uint64_t i), void* context);
  /* Gives the message for a status other than LAMINA_OK that run() is about to return. */
  void (*fail)(const lamina_kernel_call_t* call, lamina_str_t message);
} lamina_kernel_api_t;

/* One run. Spans hold lamina_buffer_t. A kernel writes every element of its results and nothing
 * else. */
struct lamina_kernel_call {
  uint32_t size, _pad0;
  const lamina_kernel_api_t* api;
  lamina_span_t inputs; /* one per input of the row */
  /* One per output of the row. Forward: written. Backward: the outputs of the forward pass if the
   * kernel has the flag LAMINA_KERNEL_READS_OUTPUTS, else absent. */
  lamina_span_t outputs;
  /* Backward only. output_gradients: one per output, read; absent if the loss does not depend on
   * the output. input_gradients: one per input, written, in the type of the lowering's gradient,
   * which is the input's type or float32; absent for inputs that are absent or not
   * floating-point. */
  lamina_span_t output_gradients, input_gradients;
  lamina_span_t attrs; /* lamina_value_t, one per attribute of the row, defaults too */
  /* 64-byte aligned, with the size that prepare() returned; not zeroed. */
  void* workspace;
  uint64_t workspace_bytes;
  /* For an op whose lowering keeps decode state. positions: i32[B, T], the position of each token
   * in its document, if the lowering reads it. segments: i32[B, T], the document of each token,
   * from 1 (0: padding); absent if each row is one document. A state starts as zeros in each
   * document. */
  const lamina_buffer_t *positions, *segments; /* null: absent */
  /* While decoding only. The states in the order in which the lowering declares them, [B, dims...],
   * before the call (read) and after it (written). start: i32[B], the number of tokens before this
   * call; if it is 0 the state counts as zeros, whatever the buffer contains. count: i32[B], the
   * number of real tokens of each row; later tokens change no state and their results are not
   * read. */
  lamina_span_t states_before, states_after;
  const lamina_buffer_t *start, *count; /* null: absent */
};

/* A kernel runs on any thread, also on several at once, and has no state: its results depend only
 * on the call, to the bit, for any number of threads. It must not allocate, start threads or throw.
 */
typedef struct lamina_kernel {
  uint32_t size, flags; /* LAMINA_KERNEL_* */
  /* Bit LAMINA_DTYPE_x: the kernel supports that type. The kernel is used if all floating-point
   * inputs, results and gradients have supported types, else the lowering. */
  uint64_t dtypes;
  void* user; /* passed to both functions */
  /* Called when a program is made, with buffers that have no data. Null: all shapes are supported,
   * no workspace. If it returns LAMINA_ERROR_UNSUPPORTED the lowering is used for these shapes.
   * [any] */
  lamina_status_t (*prepare)(void* user, const lamina_kernel_call_t* call,
                             uint64_t* workspace_bytes);
  /* Not called if all results are empty. */
  lamina_status_t (*run)(void* user, const lamina_kernel_call_t* call);
} lamina_kernel_t;

#define LAMINA_KERNEL_READS_OUTPUTS 1u /* a backward kernel also gets the outputs */

/* ---- Ops --------------------------------------------------------------------------------------
 */

/* An op. A block emits element i of the table as op number LAMINA_CUSTOM_OPS + i, revision 0,
 * without a state. Attributes are numbered as in the row. */
typedef struct lamina_custom_op {
  uint32_t size, _pad0;
  /* "<family or vendor>.<op>", letters, digits, '_', '-', unique in the plugin. */
  lamina_str_t name;
  lamina_str_t doc; /* one line, for lists */
  /* In the notation of ops.def: "x gate?", "y", "beta:f=1 kind:s". The first input is never absent;
   * none is '*'. Letters of kinds: i b f s il fl. */
  lamina_str_t inputs, outputs, attrs;
  void* user; /* passed to lower */
  /* Defines the op in ordinary ops, from its inputs alone. It must not use parameters, inputs of
   * the block, tags, losses, updates, random ops or custom ops. It may declare decode state and
   * regions over time. The host derives shapes, the gradient and decoding from it. It must be a
   * pure function of the input types and the attributes; it is called for each use. [trace] */
  lamina_status_t (*lower)(void* user, lamina_build_t* build, const lamina_lowering_t* use);
  /* Null: none. Without a backward kernel the gradient is the lowering's, recomputed from the
   * inputs. While decoding, an op that keeps keys and values always uses its lowering. */
  const lamina_kernel_t *forward, *backward;
} lamina_custom_op_t;

/* The plugin's interface. */
typedef struct lamina_custom_ops {
  uint32_t size, _pad0;
  lamina_span_t ops; /* lamina_custom_op_t */
} lamina_custom_ops_t;

/* The host's interface. A host without it has no custom ops. */
typedef struct lamina_custom_ops_api {
  uint32_t size, _pad0;
  uint64_t devices; /* LAMINA_DEVICE_*: devices whose kernels the host runs */
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
