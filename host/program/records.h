// Runs a graph once and keeps what comes out: values that blocks name with tags, layer by layer.
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

// Once, in memory of its own. REQUIRES: everything is bound.
void run(BoundProgram& program, const Backend& backend);

// REQUIRES: f32, bf16 or i32.
std::vector<float> as_floats(const std::byte* from, std::size_t count, DType dtype);

struct Record {
  Shape shape;
  std::vector<float> values;  // whatever the type: indices are far below 2^24
};

// By layer and tag; several of one tag in the order in which the block names them.
using LayerRecords = std::map<std::pair<std::int64_t, std::string>, std::vector<Record>>;

LayerRecords record_layers(const decoder::Model& model, std::span<const ConstTensorRef> parameters,
                           const Rows& rows, DType dtype, const std::vector<std::string>& tags,
                           const Backend& backend);

}  // namespace lamina::program
