// Runs compiled maps: every thread computes a contiguous part of the index space, tile by tile.
#include <algorithm>
#include <cstring>

#include "backends/cpu/elementwise/map_compiled.h"
#include "backends/cpu/threads/scratch.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

// Threads get whole units of elements, so that no thread gets a tiny part.
constexpr std::int64_t kUnit = 64;
constexpr std::int64_t kMinUnitsPerThread = 24;

using Coordinates = std::array<std::int64_t, kMaxDims>;

struct Tile {
  std::int64_t begin;  // linear index
  std::int64_t n;
  Coordinates at;  // of begin
};

Coordinates locate(const MapCompiled& map, std::int64_t index) {
  Coordinates at = {};
  for (int d = map.space.ndim - 1; d > 0; --d) {
    const std::int64_t size = map.space.dims[static_cast<std::size_t>(d)];
    at[static_cast<std::size_t>(d)] = index % size;
    index /= size;
  }
  at[0] = index;
  return at;
}

// Calls visit(offset, done, run) for each stretch of the tile along the innermost dim: `offset` of
// its first element in the operand's memory, `done` elements of the tile before it.
template <typename Visit>
void for_each_run(const MapCompiled& map, const MapOperand& operand, const Tile& tile,
                  const Visit& visit) {
  Coordinates at = tile.at;
  const auto last = static_cast<std::size_t>(map.space.ndim - 1);
  for (std::int64_t done = 0; done < tile.n;) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d <= last; ++d) offset += at[d] * operand.strides[d];
    const std::int64_t run = std::min(tile.n - done, map.space.dims[last] - at[last]);
    visit(offset, done, run);
    done += run;
    at[last] = 0;
    for (std::size_t d = last; d > 0 && ++at[d - 1] == map.space.dims[d - 1] && d > 1; --d)
      at[d - 1] = 0;
  }
}

// Copies one stretch, whose elements are `stride` apart, from or to packed elements.
template <typename T>
void gather(void* packed, const void* memory, std::int64_t stride, std::int64_t n) {
  T* to = static_cast<T*>(packed);
  const T* from = static_cast<const T*>(memory);
  if (stride == 1)
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
  else if (stride == 0)
    std::fill_n(to, n, *from);
  else
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
}
template <typename T>
void scatter(void* memory, const void* packed, std::int64_t stride, std::int64_t n) {
  T* to = static_cast<T*>(memory);
  const T* from = static_cast<const T*>(packed);
  if (stride == 1)
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
  else
    for (std::int64_t i = 0; i < n; ++i) to[i * stride] = from[i];
}
void gather(int bytes, void* packed, const void* memory, std::int64_t stride, std::int64_t n) {
  switch (bytes) {
    case 1:
      return gather<std::uint8_t>(packed, memory, stride, n);
    case 2:
      return gather<std::uint16_t>(packed, memory, stride, n);
    case 4:
      return gather<std::uint32_t>(packed, memory, stride, n);
    default:
      return gather<std::uint64_t>(packed, memory, stride, n);
  }
}
void scatter(int bytes, void* memory, const void* packed, std::int64_t stride, std::int64_t n) {
  switch (bytes) {
    case 1:
      return scatter<std::uint8_t>(memory, packed, stride, n);
    case 2:
      return scatter<std::uint16_t>(memory, packed, stride, n);
    case 4:
      return scatter<std::uint32_t>(memory, packed, stride, n);
    default:
      return scatter<std::uint64_t>(memory, packed, stride, n);
  }
}

template <typename T>
void count_up(void* to, std::int64_t first, std::int64_t stride, std::int64_t n) {
  T* values = static_cast<T*>(to);
  for (std::int64_t i = 0; i < n; ++i) values[i] = static_cast<T>(first + i * stride);
}

class Runner {
 public:
  Runner(const MapCompiled& map, std::span<const void* const> inputs,
         std::span<void* const> outputs)
      : map_(map), inputs_(inputs), outputs_(outputs) {}

  void run(std::int64_t begin, std::int64_t end) {
    // Instructions work on whole vectors, so the memory after a short tile must contain valid
    // numbers.
    std::memset(arena_, 0, static_cast<std::size_t>(map_.slot_bytes * map_.num_slots));
    Tile tile = {begin, std::min(map_.tile_elements, map_.space.num_elements), {}};
    const Tile whole = {0, map_.tile_elements, {}};
    for (const MapStep& step : map_.once) run_step(step, whole, map_.tile_elements);
    const std::int64_t row = map_.space.dims[static_cast<std::size_t>(map_.space.ndim - 1)];
    while (tile.begin < end) {
      tile.n = std::min(map_.tile_elements, end - tile.begin);
      if (map_.rows) tile.n = std::min(tile.n, row - tile.begin % row);
      // Whole vectors can be read and written in place; the rest of a row is a separate tile.
      if (tile.n > kVector) tile.n -= tile.n % kVector;
      tile.at = locate(map_, tile.begin);
      const std::int64_t padded = round_up(tile.n, kVector);
      for (const MapStep& step : map_.steps) run_step(step, tile, padded);
      for (const MapOperand& output : map_.outputs) store(output, tile);
      tile.begin += tile.n;
    }
  }

 private:
  static constexpr std::int64_t kVector = 16;

  std::byte* slot(int i) { return arena_ + i * map_.slot_bytes; }

  // The content of a slot: a register in the arena, a register in memory, or bf16 in memory.
  struct Held {
    const void* data = nullptr;
    bool bf16 = false;
  };
  Held& held(int i) { return held_[static_cast<std::size_t>(i)]; }

  void run_step(const MapStep& step, const Tile& tile, std::int64_t padded) {
    if (step.load >= 0) return load(map_.operands[static_cast<std::size_t>(step.load)], tile);
    const void* src[3] = {};
    unsigned form = 0;
    for (int i = 0; i < step.num_src; ++i) {
      const Held& source = held(step.src[static_cast<std::size_t>(i)]);
      src[i] = source.data;
      if (source.bf16) form |= 1u << i;
    }
    void* dst = slot(step.dst);
    bool bf16 = false;
    if (step.write_to >= 0) {
      const MapOperand& output = map_.outputs[static_cast<std::size_t>(step.write_to)];
      if (void* direct = direct_address(output, tile)) {
        dst = direct;
        bf16 = output.convert != nullptr;
      }
    }
    step.variants.by_form[form | (bf16 ? 4u : 0u)](dst, src, padded, step.immediate);
    held(step.dst) = {dst, bf16};
  }

  // Returns the tile's address in an output that steps may write directly, else null.
  void* direct_address(const MapOperand& output, const Tile& tile) const {
    std::byte* base = static_cast<std::byte*>(outputs_[static_cast<std::size_t>(output.pointer)]);
    const std::int64_t offset = direct_offset(output, tile);
    return offset < 0 ? nullptr : base + offset * output.element_bytes;
  }

  // Returns the element offset of a tile that is contiguous in the operand and a whole number of
  // vectors long, else -1.
  std::int64_t direct_offset(const MapOperand& operand, const Tile& tile) const {
    if (tile.n % kVector != 0) return -1;
    return contiguous_offset(operand, tile);
  }
  std::int64_t contiguous_offset(const MapOperand& operand, const Tile& tile) const {
    if (operand.contiguous) return tile.begin;
    const auto last = static_cast<std::size_t>(map_.space.ndim - 1);
    if (operand.strides[last] != 1 || tile.at[last] + tile.n > map_.space.dims[last]) return -1;
    std::int64_t offset = 0;
    for (std::size_t d = 0; d <= last; ++d) offset += tile.at[d] * operand.strides[d];
    return offset < 0 ? -1 : offset;
  }

  void load(const MapOperand& operand, const Tile& tile) {
    void* to = slot(operand.slot);
    held(operand.slot) = {to, false};
    if (operand.source == MapSource::iota) return load_iota(operand, tile, to);
    const std::byte* base =
        static_cast<const std::byte*>(inputs_[static_cast<std::size_t>(operand.pointer)]);
    if (operand.scalar) {
      void* packed = operand.convert ? scratch_ : to;
      gather(operand.element_bytes, packed, base, 0, tile.n);
      if (operand.convert) operand.convert(to, packed, tile.n);
      return;
    }
    const std::int64_t offset = contiguous_offset(operand, tile);
    if (offset >= 0 && operand.in_place && tile.n % kVector == 0) {
      held(operand.slot) = {base + offset * operand.element_bytes, operand.convert != nullptr};
      return;
    }
    if (offset >= 0 && operand.convert) {
      operand.convert(to, base + offset * operand.element_bytes, tile.n);
      return;
    }
    std::byte* packed = operand.convert ? scratch_ : static_cast<std::byte*>(to);
    const std::int64_t stride = operand.strides[static_cast<std::size_t>(map_.space.ndim - 1)];
    for_each_run(map_, operand, tile, [&](std::int64_t first, std::int64_t done, std::int64_t n) {
      gather(operand.element_bytes, packed + done * operand.element_bytes,
             base + first * operand.element_bytes, stride, n);
    });
    if (operand.convert) operand.convert(to, packed, tile.n);
  }

  void load_iota(const MapOperand& operand, const Tile& tile, void* to) const {
    const std::int64_t stride = operand.strides[static_cast<std::size_t>(map_.space.ndim - 1)];
    std::byte* bytes = static_cast<std::byte*>(to);
    for_each_run(map_, operand, tile, [&](std::int64_t first, std::int64_t done, std::int64_t n) {
      void* at = bytes + done * operand.register_bytes;
      switch (operand.dtype) {
        case DType::f32:
          return count_up<float>(at, first, stride, n);
        case DType::f64:
          return count_up<double>(at, first, stride, n);
        case DType::i32:
          return count_up<std::int32_t>(at, first, stride, n);
        default:
          return count_up<std::int64_t>(at, first, stride, n);
      }
    });
  }

  void store(const MapOperand& output, const Tile& tile) {
    std::byte* base = static_cast<std::byte*>(outputs_[static_cast<std::size_t>(output.pointer)]);
    const std::byte* from = static_cast<const std::byte*>(held(output.slot).data);
    if (held(output.slot).bf16) return;  // already written in place
    const std::int64_t offset = contiguous_offset(output, tile);
    if (offset >= 0) {
      std::byte* to = base + offset * output.element_bytes;
      if (output.convert)
        output.convert(to, from, tile.n);
      else if (to != from)
        std::memcpy(to, from, static_cast<std::size_t>(tile.n * output.element_bytes));
      return;
    }
    if (output.convert) {
      output.convert(scratch_, from, tile.n);
      from = scratch_;
    }
    const std::int64_t stride = output.strides[static_cast<std::size_t>(map_.space.ndim - 1)];
    for_each_run(map_, output, tile, [&](std::int64_t first, std::int64_t done, std::int64_t n) {
      scatter(output.element_bytes, base + first * output.element_bytes,
              from + done * output.element_bytes, stride, n);
    });
  }

  const MapCompiled& map_;
  std::span<const void* const> inputs_;
  std::span<void* const> outputs_;
  std::array<Held, kMapMaxSlots + 1> held_ = {};
  alignas(64) std::byte scratch_[kMapMaxTile * 8];
  alignas(64) std::byte arena_[kMapArenaBytes];
};

}  // namespace

void run_map(const MapCompiled& map, std::span<const void* const> inputs,
             std::span<void* const> outputs) {
  LAMINA_ASSERT(static_cast<int>(inputs.size()) == map.num_inputs);
  LAMINA_ASSERT(outputs.size() == map.outputs.size());
  const std::int64_t units = divide_up(map.space.num_elements, kUnit);
  parallel_ranges(units, kMinUnitsPerThread, [&](std::int64_t begin, std::int64_t end) {
    Runner(map, inputs, outputs).run(begin * kUnit, std::min(end * kUnit, map.space.num_elements));
  });
}

}  // namespace lamina::cpu
