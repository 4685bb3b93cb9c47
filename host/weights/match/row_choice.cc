#include "weights/match/row_choice.h"

#include <algorithm>

namespace lamina::weights {

std::optional<std::vector<registry::Transform>> row_choice(const registry::TensorRow& row) {
  using Kind = registry::Transform::Kind;
  bool is_transposed =
      std::ranges::count(row.transforms, Kind::transpose, &registry::Transform::kind) % 2 == 1;
  std::vector<registry::Transform> out;
  for (const registry::Transform& t : row.transforms) {
    const std::int64_t rows = is_transposed ? 1 : 0;
    if (t.kind == Kind::transpose) {
      is_transposed = !is_transposed;
    } else if ((t.kind == Kind::part || t.kind == Kind::strided) &&
               (t.dim < 0 ? t.dim + 2 : t.dim) == rows) {
      out.push_back(t);
      out.back().dim = 0;
    } else {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace lamina::weights
