#include "train/optimizer/qk_clip.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "runtime/host_access.h"

namespace lamina::train {
namespace {

using decoder::QueryKeyMatrices;

// Rows [first, first + count) of a matrix times a factor.
void scale_rows(const TrainState& state, const decoder::ParameterTable& parameters, int parameter,
                std::int64_t first, std::int64_t count, double factor) {
  const std::int64_t width = parameters[parameter].desc.shape[-1];
  const TensorRef rows = state.masters()[static_cast<std::size_t>(parameter)].part(
      first * width, {DType::f32, {count, width}, {}});
  change_tensor<float>(state.queue(), rows, [&](std::span<float> values) {
    for (float& value : values) value = static_cast<float>(static_cast<double>(value) * factor);
  });
}

const std::vector<double>& logits_of(std::int64_t layer, const std::vector<LayerValues>& logits) {
  const auto found = std::ranges::find(logits, layer, &LayerValues::layer);
  LAMINA_ASSERT(found != logits.end());
  return found->values;
}

// The end of the layers from `first` on that are one stack: they follow each other and are of one
// block.
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

void QkClip::apply(const TrainState& state, const std::vector<LayerValues>& logits) const {
  if (threshold_ == 0) return;
  for (std::size_t first = 0; first < matrices_.size();) {
    const std::size_t end = over_stack_ ? end_of_stack(matrices_, first) : first + 1;
    std::vector<double> top = logits_of(matrices_[first].layer, logits);
    for (std::size_t i = first + 1; i < end; ++i)
      std::ranges::transform(top, logits_of(matrices_[i].layer, logits), top.begin(),
                             [](double a, double b) { return std::max(a, b); });
    for (; first < end; ++first) {
      const QueryKeyMatrices& m = matrices_[first];
      const auto each_head = [&](int parameter, std::int64_t rows, auto scale) {
        if (!parameters_[parameter].learns()) return;
        bool told = false;
        for (std::int64_t head = 0; head < m.heads; ++head) {
          const double s = threshold_ / (top[static_cast<std::size_t>(head)] + 1e-6);
          // A head without a positive logit is below any threshold.
          if (!(s > 0 && s < 1)) continue;
          if (!told) state.will_change(parameter);
          told = true;
          scale(head * rows, s);
        }
        if (told) state.refresh_copy(parameter);
      };
      each_head(m.query, m.query_rows, [&](std::int64_t row, double s) {
        scale_rows(state, parameters_, m.query, row, m.nope, std::sqrt(s));
        scale_rows(state, parameters_, m.query, row + m.nope, m.query_rows - m.nope, s);
      });
      each_head(m.key, m.key_rows, [&](std::int64_t row, double s) {
        scale_rows(state, parameters_, m.key, row, m.nope, std::sqrt(s));
      });
    }
  }
}

}  // namespace lamina::train
