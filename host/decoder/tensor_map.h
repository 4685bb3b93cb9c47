// Published tensors <-> ours: the family's tensor map expanded over the layers, in both directions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "decoder/model.h"
#include "io/weight_files.h"

namespace lamina::decoder {

// A published tensor that one of our parameters comes from.
struct PublishedTensor {
  std::string name;  // as in the files; for an export, as the family's map spells it
  Shape shape;       // as published
  int parameter = -1;
  const registry::TensorRow* row = nullptr;
};

// The tensor of `files` behind every parameter. Every parameter has one, every tensor of the files
// is used or ignored by the map, shapes agree: else one UserError (exit 4) that names the file, the
// tensor and both shapes, and suggests the nearest name. A checkpoint in our own names (as training
// writes it) is recognised by them. Entries with parameter >= 0 and an empty name are optional
// tensors that the files lack.
std::vector<PublishedTensor> match_weights(const Model& model, const io::WeightFiles& files);

// What an export to Hugging Face's names consists of, in the order of the parameters.
std::vector<PublishedTensor> published_tensors(const Model& model);

// Converts a published tensor to ours (f32, row-major), resp. back: the transforms of its row.
void from_published(const PublishedTensor& tensor, const io::TensorView& view,
                    std::span<float> out);
std::vector<float> to_published(const PublishedTensor& tensor, std::span<const float> ours);

}  // namespace lamina::decoder
