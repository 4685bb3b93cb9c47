#include "weights/quantise/quantise.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/round_up.h"
#include "formats/encode.h"
#include "io/stored_weight.h"
#include "weights/publish/published.h"

namespace lamina::weights {
namespace {

constexpr std::int64_t kPartElements = 1 << 16;  // elements that a thread reads at once

// Returns a compressed tensor of a parameter; empty if all are plain.
std::string_view compressed_tensor(const TensorMap& map, const io::WeightFiles& files,
                                   int parameter) {
  for (const Piece& piece : map.pieces_of(parameter))
    if (const std::string& name = map.tensor_of(piece).name;
        !io::StoredWeight(files, name).is_uncompressed())
      return name;
  return {};
}

}  // namespace

void check_are_plain(const decoder::Model& model, std::span<const int> parameters,
                     const Quantisation& what, const TensorMap& map, const io::WeightFiles& files) {
  std::string_view tensor;
  std::vector<const decoder::Parameter*> compressed;
  for (const int parameter : parameters)
    if (const std::string_view found = compressed_tensor(map, files, parameter); !found.empty()) {
      if (tensor.empty()) tensor = found;
      compressed.push_back(&model.parameters()[parameter]);
    }
  if (compressed.empty()) return;
  const formats::BlockFormat* format = io::StoredWeight(files, tensor).block_format();
  const std::string note =
      compressed.size() == parameters.size()
          ? "remove it: all matrices that it would round are quantised in the files"
          : fmt::format(
                "remove it, or add these rules before all others, which leave quantised "
                "matrices as they are: {}",
                rules_of_none(what.rule_key, compressed));
  throw UserError(
      ExitCode::usage,
      {what.option,
       fmt::format("{} is quantised already: '{}' is stored in {}; expected plain values",
                   files.path(), tensor, format ? format->name : "blocks"),
       {note}});
}

std::vector<int> quantised_parameters(std::span<const formats::BlockFormat* const> storages) {
  std::vector<int> out;
  for (std::size_t i = 0; i < storages.size(); ++i)
    if (storages[i]) out.push_back(static_cast<int>(i));
  return out;
}

void quantise(decoder::Model& model, const io::WeightFiles* files, DType compute,
              const Quantisation& what) {
  set_quantised(model, choose_storage(model, what, compute, [&](auto storages) {
                  if (files)
                    check_are_plain(model, quantised_parameters(storages), what,
                                    match_weights(model, *files), *files);
                }));
}

void set_quantised(decoder::Model& model, std::vector<const formats::BlockFormat*> storages) {
  for (std::size_t i = 0; i < storages.size(); ++i)
    if (!storages[i]) storages[i] = model.parameters().all()[i].storage;
  model.set_storage(storages);
}

RowsToEncode rows_of(const decoder::Parameter& parameter) {
  const std::int64_t width = parameter.desc.shape[-1];
  return {parameter.name, parameter.storage, parameter.num_elements() / width, width};
}

void refuse_row(const RowsToEncode& matrix, const std::string& where, std::int64_t row) {
  throw UserError(ExitCode::checkpoint,
                  {where,
                   fmt::format("'{}' has values in row {} that are not finite, which have no "
                               "quantised form",
                               matrix.name, row),
                   {"the checkpoint is damaged or training diverged; use another one"}});
}

void encode_rows(const RowsToEncode& matrix, const std::string& where, const RowSource& values,
                 const Workers& workers, std::byte* out) {
  const formats::BlockFormat& format = *matrix.format;
  const std::int64_t width = matrix.width, rows = matrix.rows;
  const std::int64_t rows_per_part = std::max<std::int64_t>(1, kPartElements / width);
  work_on_all(workers, divide_up(rows, rows_per_part), [&](std::int64_t part) {
    const std::int64_t begin = part * rows_per_part, count = std::min(rows_per_part, rows - begin);
    std::vector<float> stretch(static_cast<std::size_t>(count * width));
    values(begin * width, stretch);
    for (std::int64_t row = 0; row < count; ++row) {
      const auto one = std::span(stretch).subspan(static_cast<std::size_t>(row * width),
                                                  static_cast<std::size_t>(width));
      if (!formats::encode_row(format, one, out + format.bytes_of((begin + row) * width)))
        refuse_row(matrix, where, begin + row);
    }
  });
}

void read_quantised(const decoder::Parameter& parameter, const TensorMap& map,
                    const io::WeightFiles& files, int index, const Workers& workers,
                    std::byte* out) {
  encode_rows(
      rows_of(parameter), files.path(),
      [&](std::int64_t first, std::span<float> to) {
        read_parameter(map, files, index, first, to);
      },
      workers, out);
}

}  // namespace lamina::weights
