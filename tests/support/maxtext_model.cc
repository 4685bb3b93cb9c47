#include "support/maxtext_model.h"

#include <algorithm>

namespace lamina::testing {

MaxTextModel::MaxTextModel(const std::filesystem::path& directory, bool scan_layers, bool disturbed,
                           const std::string& rows_prefix)
    : directory_(directory),
      scan_layers_(scan_layers),
      case_(directory.string()),
      files_(directory.string()),
      config_(maxtext_config(directory)),
      model_(with_balance_weight(config_.balance_weight)) {
  rows_ = read_rows(rows_prefix);
  read_weights(disturbed);
}

decoder::Model MaxTextModel::with_balance_weight(double weight) const {
  std::string text = config_.model;
  if (weight != 0) text += fmt::format("load_balance_loss_weight = {}\n", weight);
  return open_description(text, scan_layers_, directory_);
}

Rows MaxTextModel::read_rows(const std::string& prefix) const {
  Rows rows;
  const auto ints = [&](const char* name) { return case_.ints(prefix + name); };
  Shape shape = case_.shape(prefix + "inputs");
  rows.batch = shape[0];
  rows.tokens = shape[1];
  rows.ids = ints("inputs");
  rows.positions = ints("inputs_position");
  rows.segments = ints("inputs_segmentation");
  if (config_.row_positions)
    for (std::size_t i = 0; i < rows.positions.size(); ++i)
      rows.positions[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(shape[1]));
  if (config_.padding_is_document) {
    const std::int32_t unused = std::ranges::max(rows.segments) + 1;
    std::ranges::replace(rows.segments, 0, unused);
  }
  rows.labels = ints("targets");
  std::vector<std::int32_t> counted = ints("targets_segmentation");
  for (std::size_t i = 0; i < counted.size(); ++i)
    if (counted[i] == 0) rows.labels[i] = -100;
  return rows;
}

std::vector<float> MaxTextModel::read_values(const std::string& prefix,
                                             std::size_t parameter) const {
  std::vector<float> out(
      static_cast<std::size_t>(model_.parameters().all()[parameter].num_elements()));
  for (const MaxTextTensor& from : names_[parameter]) {
    const std::vector<float> theirs = case_.floats(prefix + from.name());
    for (std::int64_t i = 0; i < from.num_elements(); ++i)
      out[static_cast<std::size_t>(from.first() + i)] = from.ours(theirs[from.index(i)]);
  }
  return out;
}

void MaxTextModel::read_weights(bool disturbed) {
  for (const decoder::Parameter& p : model_.parameters().all()) {
    std::vector<float> ours(static_cast<std::size_t>(p.num_elements()));
    names_.push_back(maxtext_tensors(p, model_.config().num_layers(), config_, files_));
    for (const MaxTextTensor& from : names_.back()) {
      const auto* theirs = reinterpret_cast<const float*>(files_.tensor(from.name()).bytes.data());
      for (std::int64_t i = 0; i < from.num_elements(); ++i)
        ours[static_cast<std::size_t>(from.first() + i)] = from.ours(theirs[from.index(i)]);
    }
    if (disturbed) disturb(ours, 1e-7);
    parameters_.push_back(std::move(ours));
  }
}

}  // namespace lamina::testing
