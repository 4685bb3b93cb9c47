// CKP-2: the map between published tensors and ours.
#include <algorithm>
#include <map>
#include <span>
#include <tuple>

#include "conformance/check.h"
#include "conformance/checks/checks.h"
#include "conformance/numbers/compare.h"
#include "conformance/subjects/subject.h"
#include "core/error.h"
#include "weights/match/tensor_map.h"
#include "weights/publish/published.h"

namespace lamina::conformance {
namespace {

// A parameter computed from the published tensors made from it and others.
std::vector<float> undone(const weights::TensorMap& map,
                          const std::vector<std::vector<float>>& published, int parameter,
                          std::size_t count) {
  std::vector<float> out(count);
  for (const weights::Piece& piece : map.pieces_of(parameter)) {
    const std::vector<float>& from = published[static_cast<std::size_t>(piece.tensor)];
    const Shape& shape = piece.view.shape;
    std::vector<std::int64_t> at(static_cast<std::size_t>(shape.ndim()), 0);
    for (std::int64_t e = 0; e < piece.num_elements(); ++e) {
      std::int64_t place = piece.view.offset;
      for (std::size_t d = 0; d < at.size(); ++d) place += at[d] * piece.view.strides[d];
      out[static_cast<std::size_t>(piece.first + e)] = static_cast<float>(
          static_cast<double>(from[static_cast<std::size_t>(place)]) * piece.factor + piece.shift);
      for (std::size_t d = at.size(); d-- > 0;) {
        if (++at[d] < shape[static_cast<int>(d)]) break;
        at[d] = 0;
      }
    }
  }
  return out;
}

void check_undone(const ModelCase& c, const decoder::Model& model, const weights::TensorMap& map) {
  const weights::Weights weights = c.load(model, DType::f32);
  const std::vector<std::vector<float>> ours = copy_of(model, weights.pointers(), c.backend());
  std::vector<std::vector<float>> published;
  for (std::size_t t = 0; t < map.tensors().size(); ++t)
    published.push_back(weights::assemble(
        map, static_cast<int>(t), [&](int p, std::int64_t first, std::int64_t count) {
          return std::span<const float>(ours[static_cast<std::size_t>(p)])
              .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
        }));
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (map.pieces_of(static_cast<int>(i)).empty()) continue;
    const std::vector<float> back = undone(map, published, static_cast<int>(i), ours[i].size());
    if (!(relative_difference(back, ours[i]) <= 1e-6))
      fail("the transforms of parameter '{}' cannot be inverted: it comes back with other values",
           model.parameters().all()[i].name);
  }
}

// The parameters that take parts of one published tensor, by the index of the part.
using Parts = std::map<std::int64_t, std::string>;

// Fused tensors consist of parts 0, 1, 2 ..., each of one parameter.
void check_parts(const decoder::Model& model) {
  using Kind = registry::Transform::Kind;
  std::map<std::tuple<std::int64_t, std::uint32_t, std::string>, Parts> all;
  for (const decoder::Parameter& p : model.parameters().all())
    for (const registry::TensorRow& row : model.family().tensor_rows()) {
      if (row.ignore || row.block != p.block || row.param != p.desc.name) continue;
      const auto part = std::ranges::find(row.transforms, Kind::part, &registry::Transform::kind);
      if (part == row.transforms.end()) continue;
      Parts& parts = all[{p.layer, p.block, row.published}];
      const auto [at, fresh] = parts.emplace(part->index, p.desc.name);
      if (!fresh && at->second != p.desc.name)
        fail("give '{}' and '{}' different parts of tensor '{}': both rows take part {}",
             at->second, p.desc.name, row.published, part->index);
    }
  for (const auto& [place, parts] : all) {
    std::int64_t expected = 0;
    for (const auto& [index, name] : parts)
      if (index != expected++)
        fail(
            "give part {} of tensor '{}' to a parameter: no row takes it, and the parts of a "
            "tensor are numbered from 0 without gaps",
            expected - 1, std::get<2>(place));
  }
}

}  // namespace

void check_tensor_map(const FamilySubject& subject) {
  for (const SmallModel& small : subject.models()) {
    const decoder::Model model = subject.open(small);
    try {
      check_parts(model);
      const weights::TensorMap map = weights::published_tensors(model);
      check_undone(subject.model_case(small), model, map);
    } catch (const PluginError& refused) {
      fail("model '{}': {}", small.name, refused.what());
    }
  }
}

}  // namespace lamina::conformance
