#include "weights/check/finite.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "io/stored_weight.h"
#include "weights/match/tensor_map.h"

namespace lamina::weights {
namespace {

constexpr std::int64_t kStretch = 1 << 16;  // elements per read

// Returns the indices of an element, eg: "[3, 17]".
std::string place_in(const Shape& shape, std::int64_t element) {
  Shape place = shape;
  for (int dim = shape.ndim(); dim-- > 0;) {
    place[dim] = element % shape[dim];
    element /= shape[dim];
  }
  return to_string(place);
}

}  // namespace

void require_finite(const io::WeightFiles& files, const std::string& name) {
  const io::StoredWeight weight(files, name);
  const std::int64_t count = weight.shape().num_elements();
  std::vector<float> values;
  for (std::int64_t first = 0; first < count; first += kStretch) {
    values.resize(static_cast<std::size_t>(std::min(kStretch, count - first)));
    weight.decode(first, 1, values);
    const auto bad = std::ranges::find_if_not(values, [](float x) { return std::isfinite(x); });
    if (bad == values.end()) continue;
    throw UserError(ExitCode::checkpoint,
                    {files.path_of(name),
                     fmt::format("tensor '{}' has the value {} at {}; expected finite numbers",
                                 files.stored_name(name), *bad,
                                 place_in(weight.shape(), first + (bad - values.begin()))),
                     {"the checkpoint is damaged: download or export it again"}});
  }
}

void require_finite(const decoder::Model& model, const io::WeightFiles& files) {
  const TensorMap map = match_weights(model, files);
  for (const PublishedTensor& tensor : map.tensors()) require_finite(files, tensor.name);
}

void require_range(std::span<const float> values, const io::TensorSpec& tensor,
                   const std::string& where, bool quantised) {
  if (tensor.dtype != DType::f16 && tensor.dtype != DType::bf16) return;
  const bool is_half = tensor.dtype == DType::f16;
  const float limit = is_half ? 65520.0f : 0x1.ffp127f;  // the least value that becomes infinite
  const auto bad = std::ranges::find_if(
      values, [&](float x) { return std::abs(x) >= limit && std::isfinite(x); });
  if (bad == values.end()) return;
  const std::string_view types =
      is_half ? "--dtype bfloat16 or --dtype float32" : "--dtype float32";
  throw UserError(
      ExitCode::checkpoint,
      {where,
       fmt::format("tensor '{}' would have the value {} at {}, which is beyond {}", tensor.name,
                   *bad, place_in(tensor.shape, bad - values.begin()), long_name(tensor.dtype)),
       {quantised ? fmt::format("write the model with lamina ckpt export {} first", types)
                  : fmt::format("give {}", types)}});
}

}  // namespace lamina::weights
