// The kernels of dropout and random: number i of the random stream decides on element i. The stream
// is the op's (stream, layer), its seed the op's (seed, step). The mask does not depend on the
// dtype.
#include <algorithm>
#include <array>
#include <cmath>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/random/random.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/scratch.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"
#include "core/split_mix.h"

namespace lamina::cpu {
namespace {

const RandomFunctions& functions() { return isa_table<RandomFunctions>(); }

constexpr std::int64_t kMinGroupsPerThread = 64;

}  // namespace

void random_bits(RandomStream s, std::int64_t first, std::int64_t n, std::uint32_t* bits) {
  std::uint32_t group_bits[kRandomGroup];
  for (std::int64_t i = 0; i < n;) {
    const std::int64_t group = (first + i) / kRandomGroup, skip = (first + i) % kRandomGroup;
    const std::int64_t count = std::min(n - i, kRandomGroup - skip);
    functions().bits(s, group, 1, group_bits);
    std::copy_n(group_bits + skip, count, bits + i);
    i += count;
  }
}

void fill_uniform(RandomStream s, float low, float high, void* y, DType dtype, std::int64_t n) {
  LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
  const std::int64_t groups = divide_up(n, kRandomGroup);
  parallel_ranges(groups, kMinGroupsPerThread, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * kRandomGroup;
    functions().fill_uniform(s, high - low, low,
                             static_cast<std::byte*>(y) + first * size_bytes(dtype), dtype, begin,
                             std::min(n, end * kRandomGroup) - first);
  });
}

void dropout(const Dropout& d) {
  LAMINA_ASSERT(d.dtype == DType::f32 || d.dtype == DType::bf16);
  LAMINA_ASSERT(d.rate >= 0 && d.rate < 1);
  const auto threshold = static_cast<std::uint32_t>(
      std::lround(static_cast<double>(d.rate) * 4294967296.0) & 0xffffffff);
  const float scale = 1.0f / (1.0f - d.rate);
  const std::int64_t first_group = d.first / kRandomGroup;
  const std::int64_t groups = divide_up(d.first + d.n, kRandomGroup) - first_group;
  const std::int64_t bytes = size_bytes(d.dtype);
  parallel_ranges(
      d.n > 0 ? groups : 0, kMinGroupsPerThread, [&](std::int64_t begin, std::int64_t end) {
        // Numbers of these groups, within [d.first, d.first + d.n).
        const std::int64_t from = std::max(d.first, (first_group + begin) * kRandomGroup);
        const std::int64_t to = std::min(d.first + d.n, (first_group + end) * kRandomGroup);
        const std::int64_t offset = (from - d.first) * bytes;
        functions().dropout(d.stream, threshold, scale, static_cast<const std::byte*>(d.x) + offset,
                            static_cast<std::byte*>(d.y) + offset, d.dtype, from / kRandomGroup,
                            from % kRandomGroup, to - from);
      });
}

namespace {

// Steps of one run, and runs, are far apart.
RandomStream stream_of(const void* seed_input, const void* layer_input, std::int64_t stream) {
  const auto* seed = static_cast<const std::int64_t*>(seed_input);
  const auto* layer = static_cast<const std::int32_t*>(layer_input);
  const auto run = static_cast<std::uint64_t>(seed[0]), step = static_cast<std::uint64_t>(seed[1]);
  const auto number = static_cast<std::uint64_t>(layer ? *layer : 0) & 0xffffff;
  return {.seed = split_mix_bits(split_mix_bits(run) + step * kSplitMixStep),
          .stream = (static_cast<std::uint64_t>(stream) & 0xffffffff) << 24 | number};
}

namespace dropout_op {

namespace in = operand::dropout;

std::unique_ptr<Kernel> make_vector(const NodeView& n, Context&) {
  Dropout d{.stream = {},
            .rate = static_cast<float>(n.f("rate")),
            .dtype = n.type(0).dtype,
            .n = n.type(0).num_elements(),
            .x = nullptr,
            .y = nullptr};
  return make_kernel([d, stream = n.i("stream")](const KernelArgs& args) mutable {
    d.stream = stream_of(args.inputs[in::kSeed], args.inputs[in::kLayer], stream);
    d.x = args.inputs[0];
    d.y = args.outputs[0];
    dropout(d);
  });
}

template <typename T>
void drop(RandomStream s, float rate, const T* x, T* y, std::int64_t count) {
  using Wide = typename Number<T>::Wide;
  constexpr std::int64_t kChunk = 256;
  const auto threshold =
      static_cast<std::uint64_t>(std::llround(static_cast<double>(rate) * 4294967296.0));
  const Wide scale = Wide{1} / (Wide{1} - static_cast<Wide>(rate));
  parallel_tasks(divide_up(count, kChunk), [&](std::int64_t chunk) {
    std::array<std::uint32_t, kChunk> bits;
    const std::int64_t first = chunk * kChunk, size = std::min(kChunk, count - first);
    random_bits(s, first, size, bits.data());
    for (std::int64_t i = 0; i < size; ++i) {
      const bool kept = bits[static_cast<std::size_t>(i)] >= threshold;
      y[first + i] = Number<T>::store(kept ? Number<T>::load(x[first + i]) * scale : Wide{0});
    }
  });
}

std::unique_ptr<Kernel> make_reference(const NodeView& n, Context&) {
  return make_kernel([count = n.type(0).num_elements(), dtype = n.type(0).dtype,
                      rate = static_cast<float>(n.f("rate")),
                      stream = n.i("stream")](const KernelArgs& args) {
    with_floating(dtype, [&](auto type) {
      using T = decltype(type);
      drop(stream_of(args.inputs[in::kSeed], args.inputs[in::kLayer], stream), rate,
           static_cast<const T*>(args.inputs[0]), static_cast<T*>(args.outputs[0]), count);
    });
  });
}

constexpr KernelChoice kChoices[] = {
    {"vector", only_f32_and_bf16, make_vector, in_place_of(0)},
    {"reference", always, make_reference, in_place_of(0)},
};

}  // namespace dropout_op

namespace random_op {

namespace in = operand::random;

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return make_kernel(
      [count = n.out_type().num_elements(), stream = n.i("stream")](const KernelArgs& args) {
        fill_uniform(stream_of(args.inputs[in::kSeed], args.inputs[in::kLayer], stream), 0, 1,
                     args.outputs[0], DType::f32, count);
      });
}

constexpr KernelChoice kChoices[] = {{"vector", always, make}};

}  // namespace random_op

constexpr OpKernels kOps[] = {
    {"dropout", dropout_op::kChoices},
    {"random", random_op::kChoices},
};

}  // namespace

KernelTable random_kernels() { return kOps; }

}  // namespace lamina::cpu
