#include "model/adapter_matrices.h"

#include <algorithm>

#include "weights/match/row_choice.h"

namespace lamina::model {
namespace {

// Gives the parts of each module a common `a`. A module without adapters for all of its rows has
// none: PEFT has one for the whole.
void join_parts(const decoder::Model& base, std::vector<AdapterMatrix>& matrices) {
  if (std::ranges::none_of(matrices, &AdapterMatrix::is_part)) return;
  const weights::TensorMap map = weights::published_tensors(base);
  for (const weights::PublishedTensor& tensor : map.tensors()) {
    std::vector<AdapterMatrix*> parts;
    std::int64_t taken = 0;
    for (const weights::Piece& piece : pieces_in_order(map, tensor)) {
      const decoder::Parameter& p = base.parameters()[piece.parameter];
      taken += piece.num_elements();
      for (AdapterMatrix& m : matrices)
        if (m.block == p.block && m.name == p.desc.name && m.fits && m.is_part) parts.push_back(&m);
    }
    const bool whole = parts.size() == tensor.pieces.size() && taken == tensor.shape.num_elements();
    for (AdapterMatrix* part : parts) {
      part->fits = whole;
      part->is_part = parts.size() > 1;
      if (part->is_part) part->down_of = parts.front()->name;
    }
  }
}

}  // namespace

std::vector<AdapterMatrix> adapter_matrices(const decoder::Model& base) {
  std::vector<AdapterMatrix> out;
  for (const decoder::Parameter& p : base.parameters().all()) {
    const bool in_layer = p.block != 0 && p.layer >= 0 && p.layer < base.config().num_layers();
    if (!in_layer || p.desc.role != registry::Role::weight || p.desc.shape.ndim() < 2 ||
        p.desc.shape.ndim() > 3)
      continue;
    if (std::ranges::any_of(out, [&](const AdapterMatrix& m) {
          return m.block == p.block && m.name == p.desc.name;
        }))
      continue;
    const bool is_stack = p.desc.shape.ndim() == 3;
    AdapterMatrix m{.block = p.block,
                    .name = p.desc.name,
                    .ours = decoder::module_name(p.desc.name),
                    .module = {},
                    .published = p.desc.name,
                    .fits = !is_stack,
                    .is_stack = is_stack};
    for (const registry::TensorRow& row : base.family().tensor_rows()) {
      if (row.ignore || row.block != p.block || row.param != p.desc.name) continue;
      m.published = row.published;
      m.module = decoder::module_name(row.published);
      const auto rows = weights::row_choice(row);
      m.fits = rows && (!is_stack || row.published.find("{E}") != std::string::npos);
      m.is_part = rows && !rows->empty();
      break;
    }
    out.push_back(std::move(m));
  }
  join_parts(base, out);
  return out;
}

const AdapterMatrix* find_matrix(const std::vector<AdapterMatrix>& matrices,
                                 const decoder::Parameter& p) {
  const auto found = std::ranges::find_if(matrices, [&](const AdapterMatrix& m) {
    return m.fits && m.block == p.block && m.name == p.desc.name;
  });
  return found == matrices.end() ? nullptr : &*found;
}

std::vector<weights::Piece> pieces_in_order(const weights::TensorMap& map,
                                            const weights::PublishedTensor& tensor) {
  std::vector<weights::Piece> out;
  for (const int piece : tensor.pieces)
    out.push_back(map.pieces()[static_cast<std::size_t>(piece)]);
  std::ranges::sort(out, {}, [](const weights::Piece& p) { return p.view.offset; });
  return out;
}

}  // namespace lamina::model
