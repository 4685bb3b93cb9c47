#include "inspect/verify/dequantised.h"

#include <algorithm>
#include <string_view>

#include "inspect/verify/report.h"
#include "io/stored_weight.h"

namespace lamina::inspect {
namespace {

constexpr std::string_view kPrefix = "dequant.";

std::vector<float> values_of(const io::StoredWeight& weight) {
  std::vector<float> out(static_cast<std::size_t>(weight.shape().num_elements()));
  weight.decode(0, 1, out);
  return out;
}

// The values in the blocks that kernels read.
std::vector<float> values_of_blocks(const io::StoredWeight& weight,
                                    const formats::BlockFormat& format) {
  const std::int64_t count = weight.shape().num_elements(), columns = weight.shape()[-1];
  std::vector<std::byte> blocks(static_cast<std::size_t>(format.bytes_of(count)));
  for (std::int64_t at = 0; at < count; at += columns)
    weight.read_blocks(at, columns, blocks.data() + format.bytes_of(at));
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::int64_t at = 0; at < count; at += format.num_values)
    format.widen(blocks.data() + format.bytes_of(at), out.data() + at);
  return out;
}

}  // namespace

std::vector<DequantisedWeight> compare_dequantised(const GoldenCase& golden,
                                                   const io::WeightFiles& files) {
  std::vector<DequantisedWeight> out;
  for (std::string_view quantity : golden.golden.names()) {
    if (!quantity.starts_with(kPrefix)) continue;
    const std::string_view name = quantity.substr(kPrefix.size());
    if (!files.contains(name)) continue;
    const io::StoredWeight weight(files, name);
    const std::vector<float> want = golden.floats(quantity);
    double error = max_abs_difference(values_of(weight), want);
    if (const formats::BlockFormat* format = weight.block_format())
      error = std::max(error, max_abs_difference(values_of_blocks(weight, *format), want));
    out.push_back({std::string(quantity), error});
  }
  return out;
}

}  // namespace lamina::inspect
