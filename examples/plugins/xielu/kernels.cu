// The kernels of xIELU for GPUs. lamina_add_plugin() compiles them; kernels.ptx is the result for
// machines without nvcc:
//   nvcc -std=c++20 -O3 -ptx -arch=compute_80 -o kernels.ptx kernels.cu
#include "kernels.h"

#include <cmath>

namespace xielu {
namespace {

constexpr int kThreads = 256;

__device__ float load(const Numbers& x, std::int64_t i) {
  if (!x.is_bf16) return static_cast<const float*>(x.at)[i];
  const unsigned bits = static_cast<const unsigned short*>(x.at)[i];
  return __uint_as_float(bits << 16);
}
// Rounds to the nearest, halves to even.
__device__ void store(const Numbers& x, std::int64_t i, float value) {
  if (!x.is_bf16) {
    static_cast<float*>(x.at)[i] = value;
    return;
  }
  const unsigned bits = __float_as_uint(value);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  static_cast<unsigned short*>(x.at)[i] = static_cast<unsigned short>(
      is_nan ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

__device__ float softplus(float x) { return log1pf(expf(-fabsf(x))) + fmaxf(x, 0.0f); }
__device__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

// Adds the values of all threads of a block, in a fixed order; thread 0 has the sum.
__device__ float block_sum(float* shared, float value) {
  const int me = static_cast<int>(threadIdx.x);
  shared[me] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (me < half) shared[me] += shared[me + half];
    __syncthreads();
  }
  const float sum = shared[0];
  __syncthreads();
  return sum;
}

}  // namespace
}  // namespace xielu

using namespace xielu;

// Bound by bytes: each element is read and written once.
extern "C" __global__ void xielu_forward(ForwardParams args) {
  const float ap = softplus(load(args.p, 0)), an = softplus(load(args.n, 0)) + args.beta;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < args.count; i += step) {
    const float e = load(args.x, i);
    store(args.y, i, (e > 0 ? ap * e * e : an * (expm1f(e) - e)) + args.beta * e);
  }
}

// A block for each row: the gradient of x, and the row's part of the gradients of p and n.
extern "C" __global__ void xielu_backward(BackwardParams args) {
  __shared__ float shared[kThreads];
  const float ap = softplus(load(args.p, 0)), an = softplus(load(args.n, 0)) + args.beta;
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    float of_p = 0, of_n = 0;
    for (std::int64_t i = threadIdx.x; i < args.width; i += blockDim.x) {
      const float e = load(args.x, row * args.width + i), g = load(args.dy, row * args.width + i);
      const float less = e > 0 ? 0 : expm1f(e);
      of_p += e > 0 ? g * e * e : 0;
      of_n += e > 0 ? 0 : g * (less - e);
      store(args.dx, row * args.width + i, g * ((e > 0 ? 2 * ap * e : an * less) + args.beta));
    }
    of_p = block_sum(shared, of_p);
    of_n = block_sum(shared, of_n);
    if (threadIdx.x == 0) {
      args.sums[2 * row] = of_p;
      args.sums[2 * row + 1] = of_n;
    }
  }
}

// One block: adds the rows in a fixed order.
extern "C" __global__ void xielu_add_rows(SumParams args) {
  __shared__ float shared[kThreads];
  float of_p = 0, of_n = 0;
  for (std::int64_t row = threadIdx.x; row < args.rows; row += blockDim.x) {
    of_p += args.sums[2 * row];
    of_n += args.sums[2 * row + 1];
  }
  of_p = block_sum(shared, of_p);
  of_n = block_sum(shared, of_n);
  if (threadIdx.x != 0) return;
  store(args.dp, 0, of_p * sigmoid(load(args.p, 0)));
  store(args.dn, 0, of_n * sigmoid(load(args.n, 0)));
}
