// Published tensors <-> ours: the family's tensor map expanded over the layers, in both directions.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "decoder/model.h"
#include "io/weight_files.h"
#include "runtime/backend.h"

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

// Memory of all parameters: views into mapped files where the file's bytes serve as they are, else
// own copies.
class Weights {
 public:
  // Reads every parameter in the type that Parameter::used_dtype(compute) says. Files stay mapped.
  static Weights load(const Model& model, std::shared_ptr<const io::WeightFiles> files,
                      DType compute, const Backend& backend);
  // Fresh ones: initialised as the parameters declare, by name and seed, so that a parameter's
  // values depend on nothing else.
  static Weights initialise(const Model& model, std::uint64_t seed, DType compute,
                            const Backend& backend);

  // One a parameter. Not to be written where is_mapped().
  std::span<void* const> pointers() const { return pointers_; }
  bool is_mapped(int parameter) const { return mapped_[static_cast<std::size_t>(parameter)]; }
  std::size_t owned_bytes() const { return buffer_ ? buffer_->bytes() : 0; }

 private:
  std::shared_ptr<const io::WeightFiles> files_;
  std::unique_ptr<Buffer> buffer_;
  std::vector<void*> pointers_;
  std::vector<bool> mapped_;
};

// Converts a published tensor to ours (f32, row-major), resp. back: the transforms of its row.
void from_published(const PublishedTensor& tensor, const io::TensorView& view,
                    std::span<float> out);
std::vector<float> to_published(const PublishedTensor& tensor, std::span<const float> ours);

// The initial value of a parameter, f32.
void initialise(const Parameter& parameter, std::uint64_t seed, std::span<float> out);

}  // namespace lamina::decoder
