// The matrices of the layers, by our names and by the modules of PEFT that an adapter has for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decoder/model.h"
#include "weights/match/tensor_map.h"

namespace lamina::model {

struct AdapterMatrix {
  std::uint32_t block;
  std::string name;          // "attention.wq.weight"
  std::string ours;          // "attention.wq"
  std::string module;        // "model.layers.{L}.self_attn.q_proj"
  std::string published;     // the tensor in the family's map
  bool fits;                 // its rows are rows of a module, or of an expert's
  bool is_stack;             // it contains the matrices of all experts
  bool is_part = false;      // the module has other matrices, too
  std::string down_of = {};  // of a part: the first one, see decoder::AdapterTarget

  decoder::AdapterTarget target() const { return {block, name, down_of}; }
};

std::vector<AdapterMatrix> adapter_matrices(const decoder::Model& base);
// Returns null if the matrix cannot have an adapter.
const AdapterMatrix* find_matrix(const std::vector<AdapterMatrix>& matrices,
                                 const decoder::Parameter& p);

// Returns the pieces of a tensor of `map` in the order in the file.
std::vector<weights::Piece> pieces_in_order(const weights::TensorMap& map,
                                            const weights::PublishedTensor& tensor);

}  // namespace lamina::model
