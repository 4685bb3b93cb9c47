/* What the preloaded library counts, in a file that it shares with the driver. C and C++. */
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
  fault_count_t num_calls;  /* that match TORTURE_CALLS and TORTURE_PATH */
  fault_count_t num_struck; /* of these */
  char call[16];            /* the first that was struck */
  char path[4064];          /* its file; "" where it has none */
};
