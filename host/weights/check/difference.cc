#include "weights/check/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "io/stored_weight.h"
#include "publishers/formats.h"

namespace lamina::weights {
namespace {

using Order = io::PackedTensors::Order;

constexpr std::int64_t kChunk = std::int64_t{1} << 20;

bool is_f8(DType dtype) { return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2; }

// Returns whether a tensor has a type for f8 values or pairs of FP4 values, and scales beside it.
bool may_be_scaled(const io::WeightFiles& files, std::string_view name) {
  const io::TensorView tensor = files.tensor(name);
  if (tensor.shape.ndim() < 2 || tensor.shape.num_elements() == 0 || files.gguf()) return false;
  if (tensor.dtype == DType::u8 && name.ends_with(publishers::kMxfp4Name.weight))
    return files.contains(publishers::scales_name(name, publishers::kMxfp4Name));
  if (!is_f8(tensor.dtype) && tensor.dtype != DType::i8 && tensor.dtype != DType::u8) return false;
  return std::ranges::any_of(publishers::scales_names(name),
                             [&](const std::string& scales) { return files.contains(scales); });
}

// Returns whether the values can be read: their scales and zero points fit.
bool can_open(const io::WeightFiles& files, std::string_view name) {
  try {
    static_cast<void>(io::StoredWeight(files, name));
    return true;
  } catch (const UserError&) {
    return false;
  }
}

// Returns whether a tensor holds f8 values or pairs of FP4 values that its scales fit. Other
// integers, and values whose scales are damaged, are compared by their bytes.
bool has_scales(const io::WeightFiles& files, std::string_view name) {
  return may_be_scaled(files, name) && can_open(files, name);
}

bool has_values(const io::WeightFiles& files, std::string_view name) {
  if (files.packed(name) || files.block_format(name)) return can_open(files, name);
  if (has_scales(files, name)) return true;
  switch (files.tensor(name).dtype) {
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

std::string type_of(const io::PackedTensors& tensors, const io::StoredWeight& weight) {
  const int bits = weight.packed() ? weight.packed()->bits() : 4;  // MXFP4
  const std::string number =
      fmt::format("{}{}", tensors.order == Order::pairs ? "fp" : "int", bits);
  switch (tensors.order) {
    case Order::bytes:
      return number;
    case Order::gptq:
      return "gptq " + number;
    case Order::awq:
      return "awq " + number;
    case Order::words:
    case Order::pairs:
      break;
  }
  return "packed " + number;
}

// Returns the form of the values, or of the stored numbers if the values of this tensor or of its
// counterpart cannot be read: the two have one form then.
TensorDifference::Form form_of(const io::WeightFiles& files, std::string_view name,
                               bool other_has_values = true) {
  const io::TensorView tensor = files.tensor(name);
  const TensorDifference::Form stored = {std::string(lamina::name(tensor.dtype)), tensor.shape};
  const io::PackedTensors* packed = files.packed(name);
  const formats::BlockFormat* format = files.block_format(name);
  const bool is_fp4 = !packed && !format && !is_f8(tensor.dtype) && may_be_scaled(files, name);
  if (!packed && !format && !is_fp4) return stored;
  if (!other_has_values || !can_open(files, name)) return stored;
  const io::StoredWeight weight(files, name);
  return {packed   ? type_of(*packed, weight)
          : format ? std::string(format->name)
                   : "mxfp4",
          weight.shape()};
}

// REQUIRES: has_values() of both, and equal shapes of values.
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

bool has_same_bytes(const io::TensorView& a, const io::TensorView& b) {
  return a.dtype == b.dtype && a.shape == b.shape && std::ranges::equal(a.bytes, b.bytes);
}

// REQUIRES: the weight is packed in both.
std::vector<std::string> different_parts(const io::WeightFiles& a, const io::WeightFiles& b,
                                         std::string_view weight) {
  const std::vector<std::string_view> left = a.packed(weight)->names(),
                                      right = b.packed(weight)->names();
  const auto is_in = [](const std::vector<std::string_view>& names, std::string_view part) {
    return std::ranges::find(names, part) != names.end();
  };
  std::vector<std::string> out;
  for (std::string_view part : left)
    if (!is_in(right, part))
      out.push_back(fmt::format("{} only in A", part));
    else if (!has_same_bytes(a.tensor(part), b.tensor(part)))
      out.emplace_back(part);
  for (std::string_view part : right)
    if (!is_in(left, part)) out.push_back(fmt::format("{} only in B", part));
  return out;
}

// Returns whether equal tensors have the same values. Only GPTQ and AWQ have settings for that in
// config.json. REQUIRES: the weight is packed in both.
bool has_same_settings(const io::WeightFiles& a, const io::WeightFiles& b,
                       std::string_view weight) {
  const Order order = a.packed(weight)->order;
  if (order != b.packed(weight)->order) return false;
  if (order != Order::gptq && order != Order::awq) return true;
  const io::Compression &left = a.compression(), &right = b.compression();
  return left.bits == right.bits && left.group_size == right.group_size &&
         left.zero_points_minus_one == right.zero_points_minus_one;
}

bool has_same_order(const io::WeightFiles& a, const io::WeightFiles& b, std::string_view name) {
  return a.paired_rows(name) == b.paired_rows(name);
}

// Returns no difference for tensors that are identical.
std::optional<TensorDifference> difference(const io::WeightFiles& a, const io::WeightFiles& b,
                                           std::string_view name) {
  if (is_identical(a, b, name)) return {};
  const bool a_has_values = has_values(a, name), b_has_values = has_values(b, name);
  TensorDifference out{.name = std::string(name),
                       .a = form_of(a, name, b_has_values),
                       .b = form_of(b, name, a_has_values)};
  const bool packed = a.packed(name) && b.packed(name);
  if (packed) out.parts = different_parts(a, b, name);
  if (!(out.a->shape == out.b->shape) || !a_has_values || !b_has_values) return out;
  try {
    out.values = compare(a, b, name);
  } catch (const UserError&) {
    return out;  // a scale is not a number: the values cannot be read
  }
  const bool only_read_otherwise =
      packed ? out.parts.empty() : out.a->type == out.b->type && !has_same_order(a, b, name);
  if (only_read_otherwise && out.values->num_different == 0) return {};
  if (packed && out.parts.empty()) out.parts.emplace_back("quantization_config");
  return out;
}

}  // namespace

bool is_identical(const io::WeightFiles& a, const io::WeightFiles& b, std::string_view name) {
  if (a.packed(name) && b.packed(name))
    return has_same_settings(a, b, name) && different_parts(a, b, name).empty();
  return !a.packed(name) && !b.packed(name) && has_same_order(a, b, name) &&
         a.block_format(name) == b.block_format(name) &&
         has_same_bytes(a.tensor(name), b.tensor(name));
}

Differences differences(const io::WeightFiles& a, const io::WeightFiles& b) {
  Differences out;
  for (std::string_view name : a.all_names()) {
    std::optional<TensorDifference> found;
    if (!b.contains(name))
      found = {.name = std::string(name), .a = form_of(a, name)};
    else
      found = difference(a, b, name);
    if (found)
      out.tensors.push_back(std::move(*found));
    else
      ++out.num_identical;
  }
  for (std::string_view name : b.all_names())
    if (!a.contains(name))
      out.tensors.push_back({.name = std::string(name), .b = form_of(b, name)});
  return out;
}

}  // namespace lamina::weights
