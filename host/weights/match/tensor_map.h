// Published tensors <-> ours: the family's tensor map expanded over the layers, in both directions.
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

// Some elements of a published tensor in the order of ours: ours(i, j, ..) is its element
// offset + i strides[0] + j strides[1] ...
struct StridedView {
  Shape shape;
  std::array<std::int64_t, kMaxDims> strides{};
  std::int64_t offset = 0;

  // Ours lie one after the other there too.
  bool is_contiguous() const;
};

// What one published tensor and one parameter have in common.
struct Piece {
  int parameter = -1;
  int tensor = -1;               // index into TensorMap::tensors()
  std::int64_t first = 0;        // the piece's place in the parameter, in elements
  StridedView view;              // of the published tensor
  double factor = 1, shift = 0;  // ours = published * factor + shift

  std::int64_t num_elements() const { return view.shape.num_elements(); }
  bool changes_values() const { return factor != 1 || shift != 0; }
};

struct PublishedTensor {
  std::string name;         // as in the files; for an export, as the family's map spells it
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
  // By rising `first`, without gaps. Empty: the tensor is optional and not there.
  std::span<const Piece> pieces_of(int parameter) const;
  // The files hold our parameters under our names, as training writes them.
  bool own_names() const { return own_names_; }

 private:
  friend class MapBuilder;
  std::vector<PublishedTensor> tensors_;
  std::vector<Piece> pieces_;        // by parameter
  std::vector<std::size_t> begins_;  // of each parameter's pieces, and the end
  bool own_names_ = false;
};

// The tensors of `files` behind the parameters. Every parameter has its own, every tensor of the
// files is used or ignored by the map, shapes agree: else one UserError (exit 4) that names the
// file, the tensor and both shapes, and suggests the nearest name.
// A parameter may lack its tensor where `may_lack` says so, and then has no pieces.
using MayLack = std::function<bool(const std::string& parameter, const std::string& tensor)>;
TensorMap match_weights(const decoder::Model& model, const io::WeightFiles& files,
                        const MayLack& may_lack = {});

// Returns true where the model has prediction layers and the files have no tensor of them.
bool lacks_predictions(const decoder::Model& model, const io::WeightFiles& files);

// As match_weights() where only the names of the tensors are known. A parameter that has none gets
// names in the manner of the others.
TensorMap match_names(const decoder::Model& model, const std::string& where,
                      const std::vector<std::string_view>& names);

// `name` under every way to put on or take off one of the family's prefixes, as it is first. A name
// of PEFT keeps its own prefix.
std::vector<std::string> spellings(const std::string& name,
                                   const std::vector<std::string>& prefixes);

// The part of published names before "layers.0.", with the last '.': in the family's map, and in
// `names`, eg: "model." and "language_model.model.". Returns nothing where no name is of a layer.
struct LayerFolders {
  std::string ours, theirs;
};
std::optional<LayerFolders> layer_folders(const decoder::Model& model,
                                          std::span<const std::string_view> names);

// How files hold matrices that are multiplied with the same input. Either is read.
enum class Layout {
  published,  // as the family's map says
  fused,  // q_proj, k_proj, v_proj as rows of one qkv_proj, gate_proj and up_proj of gate_up_proj
};

// What an export to Hugging Face's names consists of, in the order of the parameters. A family
// without a map publishes its parameters under our names. Throws PluginError where the map has no
// row for a parameter, where its row does not fit it, or two parameters are the same elements.
TensorMap published_tensors(const decoder::Model& model, Layout layout = Layout::published);

}  // namespace lamina::weights
