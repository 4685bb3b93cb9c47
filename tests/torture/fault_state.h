/* The counters of the preloaded library, in a file shared with the driver. C and C++. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
#include <atomic>
typedef std::atomic<uint64_t> fault_count_t;
#else
#include <stdatomic.h>
typedef _Atomic uint64_t fault_count_t;
#endif

struct fault_state {
  fault_count_t num_calls;  /* calls that match TORTURE_CALLS and TORTURE_PATH */
  fault_count_t num_struck; /* of these */
  char call[16];            /* the first struck call */
  char path[4064];          /* its file; "" if it has none */
};
