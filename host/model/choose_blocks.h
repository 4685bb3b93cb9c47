// Chooses formats and blocks for `lamina quantize` by measuring them. Private to model.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/workers.h"
#include "io/weight_files.h"
#include "model/open.h"
#include "model/quantise.h"

namespace lamina::model {

// By parameter.
struct ChosenBlocks {
  std::vector<const formats::BlockFormat*> storages;
  std::vector<std::vector<std::byte>> blocks;  // empty: rounded to nearest when they are written
};

// Refuses storages whose layout in a directory does not exist, before any warning: the error of
// weights::check_compressed(). REQUIRES: the model is plain; it is again after the call.
void check_forms(decoder::Model& model, const io::WeightFiles& files,
                 std::span<const formats::BlockFormat* const> storages);

// UserError: exit 2, before the text is read, for a text or a number of bits that the formats
// cannot use, and for a tensor that the layout cannot express; exit 4 for inputs that are not
// finite. REQUIRES: the method has a text or a number of bits; the weights are plain in the files.
// Memory: the blocks, and about a gigabyte of moments.
ChosenBlocks choose_blocks(const OpenedModel& from, const std::shared_ptr<io::WeightFiles>& files,
                           const weights::Quantisation& what, const QuantiseMethod& method,
                           const Workers& workers);

}  // namespace lamina::model
