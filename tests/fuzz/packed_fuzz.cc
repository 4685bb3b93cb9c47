// Packed weights: a config.json, a line with "---", and a safetensors file.
#include <algorithm>

#include "fuzz/fuzz.h"
#include "io/stored_weight.h"

namespace {

constexpr std::string_view kBetween = "\n---\n";

// Reads values, every third value, and the blocks of the first and the last row.
void read(const lamina::io::StoredWeight& weight) {
  const std::int64_t count = std::min<std::int64_t>(weight.shape().num_elements(), 1 << 12);
  std::vector<float> values(static_cast<std::size_t>(count));
  weight.decode(0, 1, values);
  if (count > 3) weight.decode(1, 3, std::span(values).first(values.size() / 3));
  const lamina::formats::BlockFormat* format = weight.block_format();
  if (!format || count == 0) return;
  const std::int64_t columns = weight.shape()[-1];
  if (columns > 1 << 16) return;
  std::vector<std::byte> blocks(static_cast<std::size_t>(format->bytes_of(columns)));
  weight.read_blocks(0, columns, blocks.data());
  weight.read_blocks(weight.shape().num_elements() - columns, columns, blocks.data());
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t at = input.find(kBetween);
  if (at == input.npos) return 0;
  fuzz::write("config.json", input.substr(0, at));
  fuzz::write("model.safetensors", input.substr(at + kBetween.size()));
  fuzz::refuse_or_accept([&] {
    const io::WeightFiles files(fuzz::folder().path());
    for (std::string_view name : files.names())
      fuzz::refuse_or_accept([&] { read(io::StoredWeight(files, name)); });
  });
  return 0;
}
