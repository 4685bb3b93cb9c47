/* Draft: GPU kernels of custom ops (ext/custom_ops.h), as PTX or machine code of NVIDIA GPUs, and
 * the functions that launch them. The plugin interface LAMINA_CUSTOM_OPS_GPU_ID, which the host
 * requests with get_interface() after LAMINA_CUSTOM_OPS_ID. The host uses the kernels of a plugin
 * that was built for the host's minor; without them the op's lowering runs on GPUs. */
#ifndef LAMINA_EXT_DRAFT_CUSTOM_OPS_GPU_H
#define LAMINA_EXT_DRAFT_CUSTOM_OPS_GPU_H

#include "lamina/ext/custom_ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LAMINA_CUSTOM_OPS_GPU_ID "lamina.custom_ops_gpu/1"

/* A bit of lamina_custom_ops_api_t.devices. */
#define LAMINA_DEVICE_CUDA 2u

/* ---- Images -----------------------------------------------------------------------------------
 */

/* Compiled kernels. All images of a plugin contain the same functions. The host chooses one for
 * each GPU: a cubin of the same major capability and the highest minor one up to the GPU's; else
 * PTX of the highest capability up to the GPU's, which the driver compiles. */
typedef struct lamina_gpu_image {
  uint32_t size, kind; /* LAMINA_GPU_* */
  uint32_t capability; /* compute capability: 80 for sm_80 and compute_80 */
  uint32_t flags;      /* LAMINA_GPU_ONLY_* */
  const void* data;    /* PTX: text that ends with a zero byte */
  uint64_t bytes;      /* including that byte */
} lamina_gpu_image_t;

#define LAMINA_GPU_PTX 1u
#define LAMINA_GPU_CUBIN 2u

#define LAMINA_GPU_ONLY_THIS_CAPABILITY 1u /* as sm_90a and compute_90a */

/* ---- Launches ---------------------------------------------------------------------------------
 */

typedef struct lamina_gpu_launch {
  uint32_t size, shared_bytes; /* dynamic shared memory of a block */
  lamina_str_t function;       /* extern "C" name in the images */
  /* At most 2^31 - 1, 65535 and 65535 blocks; a number of 0 launches nothing. */
  uint32_t blocks[3], threads[3];
  /* The parameters of the function, in order, each at the next multiple of its alignment: a C
   * struct with these fields, which may end with padding. Read during the call. */
  const void* params;
  uint64_t params_bytes;
} lamina_gpu_launch_t;

typedef struct lamina_gpu_api {
  uint32_t size, _pad0;
  /* Only during run(). After another status than LAMINA_OK, run() must return it. */
  lamina_status_t (*launch)(const lamina_kernel_call_t* call, const lamina_gpu_launch_t* launch);
} lamina_gpu_api_t;

/* ---- Kernels ----------------------------------------------------------------------------------
 */

typedef struct lamina_gpu_kernel {
  uint32_t size, flags; /* LAMINA_KERNEL_* */
  uint64_t dtypes;      /* as lamina_kernel_t.dtypes */
  void* user;           /* passed to both functions */
  /* As lamina_kernel_t.prepare; the workspace is memory of the GPU. [any] */
  lamina_status_t (*prepare)(void* user, const lamina_kernel_call_t* call,
                             uint64_t* workspace_bytes);
  /* Launches the kernels of one run, which run in that order. Buffers are in memory of the GPU:
   * their addresses are for parameters only. Called once when a program is made, with buffers that
   * have no data, and then for runs, but not for each: the host may repeat recorded launches at the
   * same addresses. The launches therefore depend on shapes and attributes, the parameters also on
   * addresses, and on nothing else. parallel_for is not available. [any] */
  lamina_status_t (*run)(void* user, const lamina_kernel_call_t* call, const lamina_gpu_api_t* gpu);
} lamina_gpu_kernel_t;

/* The kernels of one op. A null kernel: the lowering runs. */
typedef struct lamina_gpu_custom_op {
  uint32_t size, op; /* element of lamina_custom_ops_t.ops */
  const lamina_gpu_kernel_t *forward, *backward;
} lamina_gpu_custom_op_t;

/* The plugin's interface. */
typedef struct lamina_custom_ops_gpu {
  uint32_t size, _pad0;
  lamina_span_t images; /* lamina_gpu_image_t */
  lamina_span_t ops;    /* lamina_gpu_custom_op_t */
} lamina_custom_ops_gpu_t;

#define LAMINA_CUSTOM_OPS_GPU_GROWABLE(X) \
  X(lamina_gpu_image_t, 32)               \
  X(lamina_gpu_launch_t, 64)              \
  X(lamina_gpu_api_t, 16)                 \
  X(lamina_gpu_kernel_t, 40)              \
  X(lamina_gpu_custom_op_t, 24)           \
  X(lamina_custom_ops_gpu_t, 40)
LAMINA_CUSTOM_OPS_GPU_GROWABLE(LAMINA_LEAST_SIZE)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LAMINA_EXT_DRAFT_CUSTOM_OPS_GPU_H */
