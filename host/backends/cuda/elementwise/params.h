// Parameters of the kernels of maps: a program as steps on slots of shared memory (encode.h), and
// ready-made programs (ready.h).
#pragma once

#include <cstdint>

#include "backends/cuda/elementwise/ready.h"
#include "backends/cuda/gpu/address.h"
#include "backends/cuda/gpu/divisor.h"
#include "core/dtype.h"
#include "core/shape.h"
#include "runtime/map/program.h"

namespace lamina::cuda {

inline constexpr int kMostMapSteps = 112;
inline constexpr int kMostMapOperands = 32;  // inputs and outputs
inline constexpr int kMostMapPatterns = 6;

enum class MapAction : std::uint8_t {
  load,      // operand `operand`
  iota,      // the index of the pattern `operand`
  constant,  // `immediate`, the bits of a number
  cast,      // from `kind` to the type `dtype`
  compute,   // `op` in `kind`
  store,     // to operand `operand`; keeps what is held
};

// The slot of a source that is the result of the step before (of the last that was no store), and
// of a result that no later step reads from a slot.
inline constexpr std::uint8_t kHeld = 255;

// A step reads `src`, and keeps its result at hand and in slot `dst`. The result is rounded or
// wrapped to `dtype` if `rounds` is set.
struct GpuMapStep {
  MapAction action = MapAction::constant;
  MapKind kind = MapKind::f32;
  MapOp op = MapOp::constant;
  DType dtype = DType::f32;
  bool rounds = false;
  std::uint8_t operand = 0;
  std::uint8_t dst = kHeld;
  std::uint8_t src[3] = {kHeld, kHeld, kHeld};
  std::int64_t immediate = 0;
  friend bool operator==(const GpuMapStep&, const GpuMapStep&) = default;
};

// An operand is contiguous, or has the strides of a pattern.
inline constexpr std::uint8_t kContiguous = 255;
struct MapPlace {
  gpu::Address address;
  DType dtype = DType::f32;
  std::uint8_t pattern = kContiguous;
};

struct MapParams {
  std::int64_t num_elements;
  std::int64_t strides[kMostMapPatterns][kMaxDims];
  gpu::Divisor dims[kMaxDims];
  MapPlace operands[kMostMapOperands];
  int ndim, num_steps;
  GpuMapStep steps[kMostMapSteps];
};
static_assert(sizeof(MapParams) <= 4096, "kernels take parameters of up to 4 KiB on every driver");

// A map over several tensors of one number of dims. The operands of all have the same types, and
// are contiguous or extend along the same dims.
inline constexpr int kMostGroupTensors = 48, kMostGroupOperands = 24, kGroupWords = 472;

struct MapGroupOperand {
  DType dtype = DType::f32;
  bool is_contiguous = true;
  std::uint16_t dims = 0;  // bit d: it extends along dim d; other dims repeat its elements
  friend bool operator==(const MapGroupOperand&, const MapGroupOperand&) = default;
};

// The words are the steps, then for each tensor the number of its elements, the address of each
// operand, and with more than one dim the Divisor of each dim.
struct MapGroupParams {
  std::int32_t num_tensors, num_chunks, chunks_per_block;  // gpu/chunks.h
  int num_steps, num_operands, ndim, words_per_tensor;
  std::int32_t first_chunks[kMostGroupTensors];
  MapGroupOperand operands[kMostGroupOperands];
  std::uint64_t words[kGroupWords];
};
static_assert(sizeof(MapGroupParams) <= 4096);

constexpr int kWordsOfStep = sizeof(GpuMapStep) / sizeof(std::uint64_t);
constexpr int kWordsOfDivisor = sizeof(gpu::Divisor) / sizeof(std::uint64_t);
constexpr int words_of_tensor(int num_operands, int ndim) {
  return 1 + num_operands + (ndim > 1 ? ndim * kWordsOfDivisor : 0);
}
static_assert(kWordsOfStep * sizeof(std::uint64_t) == sizeof(GpuMapStep));
static_assert(kWordsOfDivisor * sizeof(std::uint64_t) == sizeof(gpu::Divisor));

// Elements that a thread computes at a time, by the width of its registers.
inline constexpr int kMapElements32 = 8, kMapElements64 = 2;

// For ready-made programs.
struct ReadyParams {
  std::int64_t num_elements;
  gpu::Address operands[kMostReadyOperands];  // inputs, then outputs, all contiguous
  float numbers[kMostReadySteps];             // the immediate of each step
};

}  // namespace lamina::cuda
