// The GPU kernels of the example plugins, compiled for the emulated GPU.
#include "cuda/plain_cuda.h"

// Needs the keywords of CUDA above.
#include "../../examples/plugins/xielu/kernels.cu"

namespace {

using lamina::testing::move_to_host;

void to_host(xielu::ForwardParams& args) {
  for (xielu::Numbers* tensor : {&args.x, &args.p, &args.n, &args.y}) move_to_host(tensor->at);
}
void to_host(xielu::BackwardParams& args) {
  for (xielu::Numbers* tensor : {&args.x, &args.p, &args.n, &args.dy, &args.dx})
    move_to_host(tensor->at);
  move_to_host(args.sums);
}
void to_host(xielu::SumParams& args) {
  for (xielu::Numbers* tensor : {&args.p, &args.n, &args.dp, &args.dn}) move_to_host(tensor->at);
  move_to_host(args.sums);
}

LAMINA_PLAIN_KERNEL(xielu_forward, xielu::ForwardParams)
LAMINA_PLAIN_KERNEL(xielu_backward, xielu::BackwardParams)
LAMINA_PLAIN_KERNEL(xielu_add_rows, xielu::SumParams)

}  // namespace
