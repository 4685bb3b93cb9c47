// transpose: dims that stay next to each other are merged; rows whose elements stay together are
// copied whole, others gathered in square blocks that fit the first-level cache.
#include <algorithm>
#include <vector>

#include "backends/cpu/ops/kernel_support.h"
#include "backends/cpu/ops/kernels.h"
#include "backends/cpu/threads.h"

namespace lamina::cpu {
namespace {

// One dim of the result: its size and how far apart its elements lie in x.
struct Dim {
  std::int64_t size;
  std::int64_t stride;  // in elements
};

std::vector<Dim> merged_dims(const NodeView& n) {
  const Type& x = n.type(0);
  const auto& perm = n.list("perm");
  std::vector<Dim> dims;
  for (std::int64_t p : perm) {
    const int from = counted_dim(p, x.ndim());
    const Dim dim{x.dim(from), product(x.shape, from + 1, x.ndim())};
    if (dim.size == 1) continue;
    if (!dims.empty() && dims.back().stride == dim.stride * dim.size)
      dims.back() = {dims.back().size * dim.size, dim.stride};
    else
      dims.push_back(dim);
  }
  if (dims.empty()) dims.push_back({1, 1});
  return dims;
}

// Offset in x of the first element of the given run over the last `skip` dims.
std::int64_t offset_of(const std::vector<Dim>& dims, std::size_t skip, std::int64_t run) {
  std::int64_t offset = 0;
  for (std::size_t d = dims.size() - skip; d-- > 0;) {
    offset += run % dims[d].size * dims[d].stride;
    run /= dims[d].size;
  }
  return offset;
}

template <typename T>
void gather_blocks(const std::vector<Dim>& dims, const T* x, T* y) {
  constexpr std::int64_t kBlock = 32;
  const Dim inner = dims.back();
  const Dim rows = dims.size() > 1 ? dims[dims.size() - 2] : Dim{1, 0};
  std::int64_t planes = 1;
  for (std::size_t d = 0; d + 2 < dims.size(); ++d) planes *= dims[d].size;
  const std::int64_t row_blocks = (rows.size + kBlock - 1) / kBlock;
  const std::int64_t block_elements = std::min(rows.size, kBlock) * inner.size;
  const std::int64_t min_blocks =
      1 + kMinCopyBytes / (1 + block_elements * static_cast<std::int64_t>(sizeof(T)));
  parallel_ranges(planes * row_blocks, min_blocks, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t plane = block / row_blocks, first = block % row_blocks * kBlock;
      const std::int64_t last = std::min(rows.size, first + kBlock);
      const T* from = x + offset_of(dims, std::min<std::size_t>(2, dims.size()), plane);
      T* to = y + plane * rows.size * inner.size;
      for (std::int64_t i = 0; i < inner.size; i += kBlock)
        for (std::int64_t r = first; r < last; ++r)
          for (std::int64_t c = i; c < std::min(inner.size, i + kBlock); ++c)
            to[r * inner.size + c] = from[r * rows.stride + c * inner.stride];
    }
  });
}

void copy_rows(const std::vector<Dim>& dims, std::int64_t element_bytes, const void* x, void* y) {
  const std::int64_t row_bytes = dims.back().size * element_bytes;
  std::int64_t rows = 1;
  for (std::size_t d = 0; d + 1 < dims.size(); ++d) rows *= dims[d].size;
  parallel_ranges(rows, 1 + kMinCopyBytes / row_bytes, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      std::memcpy(at_byte(y, r * row_bytes), at_byte(x, offset_of(dims, 1, r) * element_bytes),
                  static_cast<std::size_t>(row_bytes));
  });
}

std::unique_ptr<Kernel> make(const NodeView& n) {
  const int element_bytes = size_bytes(n.type(0).dtype);
  if (n.type(0).num_elements() == 0) return make_kernel([](const KernelArgs&) {});
  return make_kernel([dims = merged_dims(n), element_bytes](const KernelArgs& args) {
    const void* x = args.inputs[0];
    void* y = args.outputs[0];
    if (dims.back().stride == 1) return copy_rows(dims, element_bytes, x, y);
    auto gather = [&](auto type) {
      using T = decltype(type);
      gather_blocks(dims, static_cast<const T*>(x), static_cast<T*>(y));
    };
    switch (element_bytes) {
      case 1: return gather(std::uint8_t{});
      case 2: return gather(std::uint16_t{});
      case 4: return gather(std::uint32_t{});
      default: return gather(std::uint64_t{});
    }
  });
}

constexpr KernelChoice kChoices[] = {{"blocks", always, make}};

}  // namespace

std::span<const KernelChoice> transpose_kernels() { return kChoices; }

}  // namespace lamina::cpu
