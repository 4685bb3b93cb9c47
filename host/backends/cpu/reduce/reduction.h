// The memory layout of a reduction over some dims, for reduce_sum and reduce_max.
#pragma once

#include <vector>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/reduce/reduce.h"
#include "backends/cpu/threads/threads.h"

namespace lamina::cpu {

struct ReducedDim {
  std::int64_t size;
  std::int64_t stride;  // in elements of x
};

// Kept dims and reduced dims of x, neighbours merged.
struct Reduction {
  std::vector<ReducedDim> kept, reduced;
  std::int64_t num_outputs = 1;
  std::int64_t num_reduced = 1;  // elements per output
};

inline Reduction reduction_of(const NodeView& n) {
  const Type& x = n.type(0);
  unsigned mask = 0;
  for (std::int64_t dim : n.list("dims")) mask |= 1u << counted_dim(dim, x.ndim());
  Reduction out;
  int last_kind = -1;
  for (int d = 0; d < x.ndim(); ++d) {
    const int kind = static_cast<int>(mask >> d & 1);
    auto& dims = kind ? out.reduced : out.kept;
    const std::int64_t stride = product(x.shape, d + 1, x.ndim());
    (kind ? out.num_reduced : out.num_outputs) *= x.dim(d);
    if (x.dim(d) == 1) continue;
    if (kind == last_kind && !dims.empty())
      dims.back() = {dims.back().size * x.dim(d), stride};
    else
      dims.push_back({x.dim(d), stride});
    last_kind = kind;
  }
  return out;
}

// The same for the vector kernels.
std::unique_ptr<Kernel> make_vector_reduction(const NodeView& n, ReduceOp op);

inline std::int64_t reduced_offset(const std::vector<ReducedDim>& dims, std::int64_t index) {
  std::int64_t offset = 0;
  for (std::size_t d = dims.size(); d-- > 0;) {
    offset += index % dims[d].size * dims[d].stride;
    index /= dims[d].size;
  }
  return offset;
}

// For every output, in parallel: state = start(), then step(state, offset in x) for each of its
// elements in the order of x, then finish(output index, state).
template <typename Start, typename Step, typename Finish>
void reduce_in_order(const Reduction& r, Start start, Step step, Finish finish) {
  const ReducedDim inner = r.reduced.empty() ? ReducedDim{1, 0} : r.reduced.back();
  const std::int64_t runs = inner.size ? r.num_reduced / inner.size : 0;
  const std::int64_t min_outputs = 1 + 4096 / (1 + r.num_reduced);
  parallel_ranges(r.num_outputs, min_outputs, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      auto state = start();
      const std::int64_t base = reduced_offset(r.kept, o);
      for (std::int64_t run = 0; run < runs; ++run) {
        std::int64_t at = base + reduced_offset(r.reduced, run * inner.size);
        for (std::int64_t i = 0; i < inner.size; ++i, at += inner.stride) step(state, at);
      }
      finish(o, state);
    }
  });
}

}  // namespace lamina::cpu
