// LAMINA_HOST_DEVICE marks functions that are compiled for the host and for CUDA devices.
#pragma once

#ifdef __CUDACC__
#define LAMINA_HOST_DEVICE __host__ __device__
#else
#define LAMINA_HOST_DEVICE
#endif
