// Maps published tensors to our parameters: the family's tensor map expanded over the layers, in
// both directions.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "decoder/model.h"
#include "io/weight_files.h"

namespace lamina::weights {

// Elements of a published tensor in the order of our parameter: ours(i, j, ..) is its element
// offset + i strides[0] + j strides[1] ...
struct StridedView {
  Shape shape;
  std::array<std::int64_t, kMaxDims> strides{};
  std::int64_t offset = 0;

  // True if our elements are also consecutive there.
  bool is_contiguous() const;
};

// The elements that one published tensor and one parameter have in common.
struct Piece {
  int parameter = -1;
  int tensor = -1;               // index into TensorMap::tensors()
  std::int64_t first = 0;        // offset of the piece in the parameter, in elements
  StridedView view;              // of the published tensor
  double factor = 1, shift = 0;  // ours = published * factor + shift

  std::int64_t num_elements() const { return view.shape.num_elements(); }
  bool changes_values() const { return factor != 1 || shift != 0; }
};

struct PublishedTensor {
  std::string name;         // as in the files; for an export, as in the family's map
  Shape shape;              // of its values
  std::vector<int> pieces;  // indices into TensorMap::pieces()
};

class TensorMap {
 public:
  const std::vector<PublishedTensor>& tensors() const { return tensors_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  const PublishedTensor& tensor_of(const Piece& piece) const {
    return tensors_[static_cast<std::size_t>(piece.tensor)];
  }
  // Sorted by `first`, without gaps. Empty: the tensor is optional and missing.
  std::span<const Piece> pieces_of(int parameter) const;
  // True if the files contain our parameters under our names, as training writes them.
  bool own_names() const { return own_names_; }

 private:
  friend class MapBuilder;
  std::vector<PublishedTensor> tensors_;
  std::vector<Piece> pieces_;        // sorted by parameter
  std::vector<std::size_t> begins_;  // index of each parameter's first piece, and the end
  bool own_names_ = false;
};

// Matches the tensors of `files` with the parameters. Every parameter needs a tensor, every tensor
// must be used or ignored by the map, and shapes must agree; else one UserError (exit 4) with the
// file, the tensor and both shapes, which suggests the nearest name. A parameter for which
// `may_lack` returns true may have no tensor, and then has no pieces.
using MayLack = std::function<bool(const std::string& parameter, const std::string& tensor)>;
TensorMap match_weights(const decoder::Model& model, const io::WeightFiles& files,
                        const MayLack& may_lack = {});

// Throws the error (exit 4) for a checkpoint of training that lacks parameters of the model, by our
// names. REQUIRES: there are some.
[[noreturn]] void refuse_lacking(const std::string& directory, std::span<const std::string> names);

// Returns whether the model has prediction layers and the files have no tensor of them.
bool lacks_predictions(const decoder::Model& model, const io::WeightFiles& files);

// Like match_weights(), but only the names of the tensors are known. A parameter without a tensor
// gets a name derived from the others.
TensorMap match_names(const decoder::Model& model, const std::string& where,
                      const std::vector<std::string_view>& names);

// Returns `name` with every combination of the family's prefixes added or removed, starting with
// `name` itself. PEFT's prefix is kept.
std::vector<std::string> spellings(const std::string& name,
                                   const std::vector<std::string>& prefixes);

// The part of published names before "layers.0.", including the last '.': in the family's map, and
// in `names`, eg: "model." and "language_model.model.". Returns nothing if no name belongs to a
// layer.
struct LayerFolders {
  std::string ours, theirs;
};
std::optional<LayerFolders> layer_folders(const decoder::Model& model,
                                          std::span<const std::string_view> names);

// Storage of matrices with a common input. Both forms are read.
enum class Layout {
  published,  // as in the family's map
  fused,  // q_proj, k_proj, v_proj as rows of one qkv_proj, gate_proj and up_proj of gate_up_proj
};

// Returns `name`, one of the family's map, as files with these folders spell it, eg:
// "language_model.lm_head.weight".
std::string name_in(const LayerFolders& folders, const std::string& name);

// Returns the tensors of an export to Hugging Face's names, in the order of the parameters; with
// `folders` as name_in() spells them. A family without a map publishes its parameters under our
// names. Throws PluginError if the map has no row for a parameter, if a row does not fit it, or if
// two parameters contain the same elements.
TensorMap published_tensors(const decoder::Model& model, Layout layout = Layout::published,
                            const std::optional<LayerFolders>& folders = {});

}  // namespace lamina::weights
