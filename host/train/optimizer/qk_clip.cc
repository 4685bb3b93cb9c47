#include "train/optimizer/qk_clip.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "runtime/host_access.h"

namespace lamina::train {
namespace {

using decoder::QueryKeyMatrices;

const std::vector<double>& logits_of(std::int64_t layer, const std::vector<LayerValues>& logits) {
  const auto found = std::ranges::find(logits, layer, &LayerValues::layer);
  LAMINA_ASSERT(found != logits.end());
  return found->values;
}

// Returns the end of the stack that begins at `first`: layers that follow each other and have the
// same block.
std::size_t end_of_stack(const std::vector<QueryKeyMatrices>& matrices, std::size_t first) {
  std::size_t end = first + 1;
  while (end < matrices.size() && matrices[end].block == matrices[first].block &&
         matrices[end].layer == matrices[end - 1].layer + 1)
    ++end;
  return end;
}

}  // namespace

QkClip::QkClip(std::vector<QueryKeyMatrices> matrices, const decoder::ParameterTable& parameters,
               const config::OptimizerSection& config)
    : matrices_(std::move(matrices)),
      parameters_(parameters),
      threshold_(config.qk_clip),
      over_stack_(config.qk_clip_over == "stack") {
  std::ranges::sort(matrices_, {}, &QueryKeyMatrices::layer);
}

// The factor of each row of a matrix whose heads have `head_rows` rows each.
std::vector<double> QkClip::factors_of(const QueryKeyMatrices& m, std::int64_t head_rows,
                                       const std::vector<double>& top, bool is_query) const {
  std::vector<double> out(static_cast<std::size_t>(m.heads * head_rows), 1.0);
  for (std::int64_t head = 0; head < m.heads; ++head) {
    const double s = threshold_ / (top[static_cast<std::size_t>(head)] + 1e-6);
    // A head without a positive logit is below any threshold.
    if (!(s > 0 && s < 1)) continue;
    const auto first = out.begin() + static_cast<std::ptrdiff_t>(head * head_rows);
    std::fill_n(first, m.nope, std::sqrt(s));
    if (is_query) std::fill(first + m.nope, first + head_rows, s);
  }
  return out;
}

void QkClip::apply(WeightChanges& weights, const std::vector<LayerValues>& logits) const {
  if (threshold_ == 0) return;
  const auto scale = [&](int parameter, const std::vector<double>& factors) {
    const bool clips = std::ranges::any_of(factors, [](double factor) { return factor != 1; });
    if (clips && parameters_[parameter].learns()) weights.scale_rows(parameter, factors);
  };
  for (std::size_t first = 0; first < matrices_.size();) {
    const std::size_t end = over_stack_ ? end_of_stack(matrices_, first) : first + 1;
    std::vector<double> top = logits_of(matrices_[first].layer, logits);
    for (std::size_t i = first + 1; i < end; ++i)
      std::ranges::transform(top, logits_of(matrices_[i].layer, logits), top.begin(),
                             [](double a, double b) { return std::max(a, b); });
    for (; first < end; ++first) {
      const QueryKeyMatrices& m = matrices_[first];
      scale(m.query, factors_of(m, m.query_rows, top, true));
      scale(m.key, factors_of(m, m.key_rows, top, false));
    }
  }
}

}  // namespace lamina::train
