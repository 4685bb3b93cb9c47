#include "weights/check/difference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "io/stored_weight.h"

namespace lamina::weights {
namespace {

constexpr std::int64_t kChunk = std::int64_t{1} << 20;

bool has_values(const io::TensorView& tensor) {
  switch (tensor.dtype) {
    case DType::f32:
    case DType::bf16:
    case DType::f16:
    case DType::f64:
    case DType::i32:
    case DType::i64:
      return true;
    default:
      return false;
  }
}

TensorDifference::Values compare(const io::WeightFiles& a, const io::WeightFiles& b,
                                 std::string_view name) {
  const io::StoredWeight left(a, name), right(b, name);
  const std::int64_t count = left.shape().num_elements();
  TensorDifference::Values out;
  double largest_a = 0;
  std::vector<float> of_a, of_b;
  for (std::int64_t first = 0; first < count; first += kChunk) {
    const auto now = static_cast<std::size_t>(std::min(kChunk, count - first));
    of_a.resize(now);
    of_b.resize(now);
    left.decode(first, 1, of_a);
    right.decode(first, 1, of_b);
    for (std::size_t i = 0; i < now; ++i) {
      const double x = of_a[i], y = of_b[i];
      if (std::isfinite(x)) largest_a = std::max(largest_a, std::abs(x));
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      ++out.num_different;
      const double by = std::abs(x - y);
      out.largest =
          std::max(out.largest, std::isnan(by) ? std::numeric_limits<double>::infinity() : by);
    }
  }
  out.relative = out.largest == 0 ? 0 : out.largest / largest_a;
  return out;
}

}  // namespace

Differences differences(const io::WeightFiles& a, const io::WeightFiles& b) {
  Differences out;
  const auto spec = [](const io::TensorView& tensor) {
    return io::TensorSpec{std::string(tensor.name), tensor.dtype, tensor.shape};
  };
  for (std::string_view name : a.names()) {
    const io::TensorView left = a.tensor(name);
    if (!b.contains(name)) {
      out.tensors.push_back({std::string(name), spec(left), {}, {}});
      continue;
    }
    const io::TensorView right = b.tensor(name);
    const bool same_form = left.dtype == right.dtype && left.shape == right.shape;
    const bool same_order = a.paired_rows(name) == b.paired_rows(name);
    TensorDifference found{std::string(name), spec(left), spec(right), {}};
    bool identical = same_form && same_order && std::ranges::equal(left.bytes, right.bytes);
    if (!identical && left.shape == right.shape && has_values(left) && has_values(right)) {
      found.values = compare(a, b, name);
      identical = same_form && !same_order && found.values->num_different == 0;
    }
    if (identical)
      ++out.num_identical;
    else
      out.tensors.push_back(std::move(found));
  }
  for (std::string_view name : b.names())
    if (!a.contains(name)) out.tensors.push_back({std::string(name), {}, spec(b.tensor(name)), {}});
  return out;
}

}  // namespace lamina::weights
