// The compiled form of a map: loads, computations and stores over tiles of registers. Private to
// this folder.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/elementwise/map.h"
#include "runtime/map/dims.h"

namespace lamina::cpu {

struct MapImmediate {
  double value;
  std::int64_t integer;
};

// Computes n register elements; n is a multiple of 16, and so are all registers.
using MapFunction = void (*)(void* dst, const void* const* src, std::int64_t n,
                             const MapImmediate& immediate);
// Converts n elements from memory to registers or back; n is any number.
using MapConvert = void (*)(void* dst, const void* src, std::int64_t n);

// The versions of one computation whose sources and destination are registers of f32, or bf16 in
// memory. Bit 0 of the index: the first source is bf16; bit 1: the second; bit 2: the destination.
// Null for a missing version; all null if the computation does not exist.
struct MapVariants {
  std::array<MapFunction, 8> by_form = {};
};

// The f32 functions of one instruction set, and all other functions. Null for a missing version.
struct MapFunctions {
  MapVariants (*function)(MapOp op, bool round_to_bf16);  // comparisons give i32
  MapFunction round_to_f16;
  MapConvert load_bf16, load_f16, store_bf16, store_f16;

  static const MapFunctions avx512, avx2, portable;
};

// `kind` is the kind of a comparison's sources, else of the result.
MapFunction map_scalar_function(MapOp op, MapKind kind);
MapFunction map_cast_function(MapKind from, DType to);  // saturates from floating kinds
MapFunction map_wrap_function(DType to);                // null if registers have that form
MapConvert map_load_function(DType from);               // null where registers have that form
MapConvert map_store_function(DType to);

enum class MapSource : std::uint8_t { memory, constant, iota };

// An input or output over the collapsed dims.
struct MapOperand {
  MapSource source = MapSource::memory;
  DType dtype;
  bool contiguous = false;  // the linear index is the offset
  bool scalar = false;      // the same element everywhere
  bool in_place = false;    // may be used or written in place
  int element_bytes = 0;
  int pointer = 0;  // index of run()'s input or output
  int slot = 0;
  int register_bytes = 0;  // of one register element
  MapStrides strides = {};
  MapImmediate immediate = {};
  MapConvert convert = nullptr;  // null: memory has the form of registers
};

struct MapStep {
  int load = -1;         // >= 0: loads this operand; else computes
  MapVariants variants;  // by_form[0] always exists
  int dst = 0;
  int num_src = 0;
  std::array<int, 3> src = {};
  MapImmediate immediate = {};
  int write_to = -1;  // >= 0: may compute straight into this output's memory
};

struct MapCompiled {
  int num_inputs = 0;
  MergedDims space;
  std::int64_t tile_elements = 0;
  std::int64_t slot_bytes = 0;
  int num_slots = 0;
  bool rows = false;  // tiles do not cross the end of the innermost dim
  std::vector<MapOperand> operands;
  std::vector<MapOperand> outputs;
  std::vector<MapStep> once;   // steps whose result is the same everywhere; run per range
  std::vector<MapStep> steps;  // per tile; stores follow
};

// Register files and one tile of raw elements are on the stack of the running thread.
inline constexpr std::int64_t kMapArenaBytes = 48 * 1024;
inline constexpr std::int64_t kMapMaxTile = 1024;
inline constexpr std::int64_t kMapMinTile = 64;
inline constexpr int kMapMaxSlots = 90;

// Sets `space` and `rows`, and the strides of operands over the merged dims.
void merge_operand_dims(MapCompiled& map, const Shape& dims);

MapCompiled compile_map(const MapProgram& program);
void run_map(const MapCompiled& map, std::span<const void* const> inputs,
             std::span<void* const> outputs);

}  // namespace lamina::cpu
