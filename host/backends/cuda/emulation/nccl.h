// A fake NCCL between the emulated GPUs of this process. Sums are added in the order of ranks,
// in f32; with NVLS, which it takes unless NCCL_ALGO excludes it, another rank begins in each call.
// It reads the file of NCCL_CONF_FILE. Calls of communicators do not block: their work is added to
// the stream later, as the state of the communicator shows. It reports calls that differ between
// ranks, communicators on several streams, a GPU that is used by two ranks, and memory of other
// GPUs.
#pragma once

#include "backends/cuda/nccl/api.h"

namespace lamina::cuda::emulation {

// The functions of the fake NCCL. [any thread]
const nccl::NcclApi& nccl_api();

// Faults of a rank, once, at its collective number `after`, counted from 0.
enum class NcclFault {
  refuses,  // the call returns system_error
  hangs,    // the GPU hangs after this collective, until the rank aborts
  breaks,   // the communicators of all ranks get remote_error
};
void fail_collective(NcclFault fault, int rank, int after);
// Lets ranks from this one on fail to connect, until reset_nccl().
void refuse_to_connect(int first_rank = 0);
// Number of communicators that are neither destroyed nor aborted.
int num_communicators();
void reset_nccl();

}  // namespace lamina::cuda::emulation
