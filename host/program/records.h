// Runs a graph once and returns its records: the values that blocks tag, layer by layer.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "decoder/model.h"
#include "program/bound_program.h"
#include "program/rows.h"

namespace lamina::program {

// Runs the program once, in an arena that is allocated for this run. REQUIRES: everything is bound.
void run(BoundProgram& program, const Backend& backend);

// Converts `count` elements to float32. REQUIRES: `dtype` is f32, bf16 or i32.
std::vector<float> as_floats(const std::byte* from, std::size_t count, DType dtype);

struct Record {
  Shape shape;
  std::vector<float> values;  // exact for indices too: they are far below 2^24
};

// Records by layer and tag; several of one tag are in the order in which the block names them.
using LayerRecords = std::map<std::pair<std::int64_t, std::string>, std::vector<Record>>;

LayerRecords record_layers(const decoder::Model& model, std::span<const ConstTensorRef> parameters,
                           const Rows& rows, DType dtype, const std::vector<std::string>& tags,
                           const Backend& backend);

}  // namespace lamina::program
