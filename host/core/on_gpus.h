// LAMINA_ON_GPUS marks functions that code of GPUs calls, too.
#pragma once

#ifdef __CUDACC__
#define LAMINA_ON_GPUS __host__ __device__
#else
#define LAMINA_ON_GPUS
#endif
