// Values that blocks name with tags, layer by layer, of one pass through a model.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "decoder/model.h"
#include "program/rows.h"

namespace lamina::cli {

struct Record {
  Shape shape;
  std::vector<float> values;  // whatever the type: indices are far below 2^24
};

// By layer and tag; several of one tag in the order in which the block names them.
using LayerRecords = std::map<std::pair<std::int64_t, std::string>, std::vector<Record>>;

LayerRecords record_layers(const decoder::Model& model, std::span<void* const> parameters,
                           const Rows& rows, DType dtype, const std::vector<std::string>& tags,
                           const Backend& backend);

}  // namespace lamina::cli
