// Runs the steps of a map on the elements of one thread. A step costs some twenty instructions of
// decoding, shared by all elements, and one read of shared memory for each source that is not at
// hand.
#pragma once

#include "backends/cuda/elementwise/numbers.h"
#include "backends/cuda/elementwise/operands.h"
#include "backends/cuda/elementwise/params.h"
#include "backends/cuda/elementwise/registers.h"
#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda {

// Map: WholeMap or MapOfGroup (spaces.h).
template <typename Word, int kElements, typename Map>
class MapInterpreter {
 public:
  LAMINA_GPU_FUNCTION MapInterpreter(const Map& map, gpu::Shared<Word> slots)
      : map_(map), operands_(map), slots_(slots) {}

  // Computes elements [first, first + kElements) that exist.
  LAMINA_GPU_FUNCTION void run(std::int64_t first) {
    operands_.move_to(first);
    for (int s = 0; s < map_.num_steps(); ++s) step(map_.step(s));
  }

 private:
  using Registers = MapRegisters<Word, kElements>;
  using Numbers = MapNumbers<Word, kElements>;
  static constexpr int kPerVector = 16 / static_cast<int>(sizeof(Word));
  static constexpr int kVectors = kElements / kPerVector;

  // Neighbouring threads have neighbouring vectors.
  LAMINA_GPU_FUNCTION int place(int slot, int vector) const {
    return ((slot * kVectors + vector) * gpu::num_threads() + gpu::thread_index()) * kPerVector;
  }
  LAMINA_GPU_FUNCTION void read(int slot, Registers& x) const {
    if (slot == kHeld) {
      x = held_;
      return;
    }
    LAMINA_GPU_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const auto vector = gpu::load_vector<kPerVector>(slots_, place(slot, v));
      LAMINA_GPU_UNROLL
      for (int i = 0; i < kPerVector; ++i) x.word[v * kPerVector + i] = vector.values[i];
    }
  }
  LAMINA_GPU_FUNCTION void keep(int slot) const {
    LAMINA_GPU_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      gpu::Vector<Word, kPerVector> vector;
      LAMINA_GPU_UNROLL
      for (int i = 0; i < kPerVector; ++i) vector.values[i] = held_.word[v * kPerVector + i];
      gpu::store_vector(slots_, place(slot, v), vector);
    }
  }

  LAMINA_GPU_FUNCTION void select(const GpuMapStep& step) {
    Registers a, b;
    read(step.src[1], a);
    read(step.src[2], b);
    read(step.src[0], held_);
    LAMINA_GPU_UNROLL
    for (int e = 0; e < kElements; ++e)
      held_.word[e] = held_.template get<std::int32_t>(e) != 0 ? a.word[e] : b.word[e];
  }

  // Other sources are read before the first one replaces the held number.
  LAMINA_GPU_FUNCTION void compute(const GpuMapStep& step) {
    if (step.op == MapOp::select) return select(step);
    Registers b;
    if (step.op == MapOp::add_imm || step.op == MapOp::mul_imm)
      b.fill(static_cast<Word>(step.immediate));
    else
      read(step.src[1], b);
    read(step.src[0], held_);
    Numbers::compute(step, held_, b);
  }

  LAMINA_GPU_FUNCTION void step(const GpuMapStep& step) {
    switch (step.action) {
      case MapAction::store: {
        Registers x;
        read(step.src[0], x);
        return operands_.store(map_.operand(step.operand), x);
      }
      case MapAction::load:
        operands_.load(map_.operand(step.operand), held_);
        break;
      case MapAction::iota:
        operands_.count(step, held_);
        break;
      case MapAction::constant:
        held_.fill(static_cast<Word>(step.immediate));
        break;
      case MapAction::cast:
        read(step.src[0], held_);
        Numbers::cast(step, held_);
        break;
      case MapAction::compute:
        compute(step);
        break;
    }
    if (step.rounds) Numbers::round(step.dtype, held_);
    if (step.dst != kHeld) keep(step.dst);
  }

  const Map& map_;
  MapOperands<Word, kElements, Map> operands_;
  gpu::Shared<Word> slots_;
  Registers held_ = {};
};

}  // namespace lamina::cuda
