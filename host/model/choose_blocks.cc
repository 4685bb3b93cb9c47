#include "model/choose_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "core/error.h"
#include "core/log.h"
#include "core/read_file.h"
#include "data/token_store.h"
#include "formats/encode.h"
#include "formats/value_rounder.h"
#include "model/calibration.h"
#include "weights/publish/hf_export.h"
#include "weights/publish/published.h"
#include "weights/quantise/budget.h"
#include "weights/quantise/error_feedback.h"
#include "weights/weights.h"

namespace lamina::model {
namespace {

using Storage = const formats::BlockFormat*;
using weights::FormatErrors;

constexpr std::int64_t kRowTokens = 512;
constexpr const char *kCalibrate = "--calibrate", *kTargetBits = "--target-bits";

// Token ids separated by commas or spaces.
std::vector<std::int32_t> ids_in(const std::string& file, std::int64_t vocab) {
  const std::string text = read_file(file, ExitCode::data);
  std::vector<std::int32_t> out;
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    if (*at == ',' || *at == ' ' || *at == '\n' || *at == '\r' || *at == '\t') {
      ++at;
      continue;
    }
    std::int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0 || id >= vocab)
      throw UserError(ExitCode::data,
                      {file,
                       fmt::format("has no token id at byte {}; expected numbers below {}, because "
                                   "the model has no tokenizer",
                                   at - text.data(), vocab),
                       {"separate ids by commas or spaces"}});
    out.push_back(id);
    at = next;
  }
  return out;
}

// Takes rows at equal distances, so that they are spread over the text.
CalibrationText rows_in(const std::vector<std::int32_t>& ids, std::int64_t row_tokens,
                        std::int64_t most_tokens, const std::string& file) {
  const auto given = static_cast<std::int64_t>(ids.size());
  if (given < 2)
    throw UserError(ExitCode::data, {file,
                                     fmt::format("has {} tokens; expected at least 2", given),
                                     {"some thousands of tokens of typical text are enough"}});
  CalibrationText out{.tokens_per_row = std::min({row_tokens, most_tokens, given})};
  const std::int64_t there = given / out.tokens_per_row;
  const std::int64_t rows =
      std::min(there, std::max<std::int64_t>(1, most_tokens / out.tokens_per_row));
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto first = ids.begin() + row * there / rows * out.tokens_per_row;
    out.ids.insert(out.ids.end(), first, first + out.tokens_per_row);
  }
  return out;
}

CalibrationText read_text(const OpenedModel& from, const QuantiseMethod& method) {
  const decoder::Model& model = *from.model;
  std::vector<std::int32_t> ids;
  if (text::has_tokenizer(from.directory))
    ids = data::tokenize_files({method.calibrate}, *data::parse_separator("file"),
                               *text::load_tokenizer(from.directory), model.vocab_size())
              .tokens;
  else
    ids = ids_in(method.calibrate, model.vocab_size());
  const std::int64_t positions = model.max_length().value_or(kRowTokens);
  return rows_in(ids, std::min(positions, kRowTokens), method.calibrate_tokens, method.calibrate);
}

// Formats of few bits gain from error feedback; 8 bits are exact enough without.
bool has_feedback(const formats::BlockFormat& format) {
  return formats::ValueRounder::can_round(format) && !format.name.starts_with("INT8");
}

class Chooser {
 public:
  Chooser(const OpenedModel& from, const std::shared_ptr<io::WeightFiles>& files,
          const weights::Quantisation& what, const QuantiseMethod& method, const Workers& workers)
      : from_(from),
        model_(*from.model),
        files_(files),
        what_(what),
        method_(method),
        workers_(workers),
        map_(weights::match_weights(model_, *files)),
        read_by_layers_(read_by_layers(model_)) {}

  ChosenBlocks run() && {
    out_.storages = weights::choose_storage(model_, what_, DType::bf16, [this](auto storages) {
      out_.storages.assign(storages.begin(), storages.end());
      check_method();
      check_forms(*from_.model, *files_, storages);
    });
    out_.blocks.resize(out_.storages.size());
    errors_.resize(out_.storages.size());
    rounded_groups_.resize(out_.storages.size());
    if (!method_.calibrate.empty()) calibrate();
    if (method_.target_bits) spend_bits();
    return std::move(out_);
  }

 private:
  // Errors that follow from the formats alone, before the text is read.
  void check_method() const {
    if (method_.target_bits) check_bits();
    if (!method_.calibrate.empty()) check_text();
  }

  void check_bits() const {
    const Storage better = formats::format_for(weights::kBudgetFormat, 128);
    const Storage base = formats::format_for(what_.format, 4096);
    const auto bits = [](Storage format) { return 8. * format->num_bytes / format->num_values; };
    if (bits(base) >= bits(better))
      throw UserError(ExitCode::usage,
                      {kTargetBits,
                       fmt::format("needs a format with fewer bits than {}, got {}",
                                   weights::kBudgetFormat, what_.format),
                       {"some matrices keep that format, others get int8; eg: --format int4"}});
    bool any = false;
    for (std::size_t i = 0; i < out_.storages.size(); ++i) any |= may_change(i);
    if (!any)
      throw UserError(ExitCode::usage,
                      {kTargetBits,
                       fmt::format("has no effect: no matrix gets {}", what_.format),
                       {"remove it, or check the rules", rows_of_format()}});
    weights::check_budget(model_, out_.storages, *method_.target_bits, kTargetBits);
  }

  // A text serves error feedback, and the choice of matrices for a number of bits.
  void check_text() const {
    for (std::size_t i = 0; i < out_.storages.size(); ++i)
      if (uses_text(i)) return;
    throw UserError(ExitCode::usage,
                    {kCalibrate,
                     "has no effect: no matrix of the layers gets an int4 format or mxfp4, and "
                     "only these are rounded with error feedback",
                     {"remove it, use --format int4, or check the rules", rows_of_format()}});
  }

  // The other reason for matrices without the format.
  std::string rows_of_format() const {
    return fmt::format("matrices whose rows are not multiples of {} values stay plain",
                       formats::row_unit(what_.format));
  }

  const decoder::Parameter& parameter(std::size_t i) const { return model_.parameters().all()[i]; }

  // The rows of a parameter, or of one expert, in a format.
  weights::RowsToEncode rows(std::size_t i, Storage format, std::int64_t group,
                             std::int64_t groups) const {
    decoder::Parameter p = parameter(i);
    p.storage = format;
    weights::RowsToEncode out = weights::rows_of(p);
    out.rows /= groups;
    if (groups > 1) out.name += fmt::format(" of expert {}", group);
    return out;
  }

  weights::RowSource source(std::size_t i, std::int64_t first_element) const {
    return [this, i, first_element](std::int64_t first, std::span<float> to) {
      weights::read_parameter(map_, *files_, static_cast<int>(i), first_element + first, to);
    };
  }

  bool may_change(std::size_t i) const {
    return method_.target_bits && out_.storages[i] &&
           out_.storages[i] == formats::format_for(what_.format, parameter(i).desc.shape[-1]);
  }

  // True if the inputs that a text gives to the matrix change its blocks or its format.
  bool uses_text(std::size_t i) const {
    return read_by_layers_[i] && out_.storages[i] &&
           (has_feedback(*out_.storages[i]) || may_change(i));
  }

  std::int64_t num_groups(std::size_t i) const {
    const Shape& shape = parameter(i).desc.shape;
    return shape.ndim() == 3 ? shape[0] : 1;
  }

  // In several passes over the text if the moments of all inputs are large.
  void calibrate() {
    LAMINA_ASSERT(method_.backend != nullptr);
    const CalibrationText text = read_text(from_, method_);
    const weights::Weights plain =
        weights::Weights::load(model_, files_, DType::bf16, *method_.backend, workers_);
    std::vector<int> wanted;
    for (std::size_t i = 0; i < out_.storages.size(); ++i)
      if (uses_text(i)) wanted.push_back(static_cast<int>(i));
    for (bool is_complete = wanted.empty(); !is_complete;) {
      CalibrationOptions options;
      options.progress = [&](std::int64_t done, std::int64_t total) {
        show(QuantiseStage::reading, done, total);
      };
      CollectedMoments some =
          collect_moments(model_, plain.pointers(), text, wanted, options, *method_.backend);
      is_complete = some.is_complete;
      for (std::size_t done = 0; done < some.inputs.size(); ++done) {
        show(QuantiseStage::rounding, static_cast<std::int64_t>(done), std::ssize(some.inputs));
        const InputMoments moments = std::move(some.inputs[done]);
        use(moments);
        for (const InputMoments::Reader& reader : moments.readers)
          std::erase(wanted, reader.parameter);
      }
      show(QuantiseStage::rounding, std::ssize(some.inputs), std::ssize(some.inputs));
    }
    for (std::size_t i = 0; i < out_.storages.size(); ++i) finish(i);
  }

  void show(QuantiseStage stage, std::int64_t done, std::int64_t total) const {
    if (method_.progress) method_.progress(stage, done, total);
  }

  // Moments that are not finite have no factor.
  void check_is_finite(const InputMoments& moments) const {
    const auto is_finite = [](float sum) { return std::isfinite(sum); };
    if (std::ranges::all_of(moments.sums.values(), is_finite)) return;
    const auto i = static_cast<std::size_t>(moments.readers.front().parameter);
    throw UserError(ExitCode::checkpoint,
                    {files_->path(),
                     fmt::format("the inputs of '{}' are not finite for {}", parameter(i).name,
                                 method_.calibrate),
                     {"the checkpoint is damaged or training diverged; use another one, or remove "
                      "--calibrate"}});
  }

  void use(const InputMoments& moments) {
    if (moments.num_inputs == 0) return;
    check_is_finite(moments);
    std::optional<weights::InputFactor> factor;
    std::vector<float> diagonal(static_cast<std::size_t>(moments.sums.width()));
    for (std::size_t i = 0; i < diagonal.size(); ++i)
      diagonal[i] = moments.sums.diagonal(static_cast<std::int64_t>(i));
    for (const InputMoments::Reader& reader : moments.readers) {
      const auto i = static_cast<std::size_t>(reader.parameter);
      const Storage format = out_.storages[i];
      const std::int64_t groups = num_groups(i);
      const auto matrix = rows(i, format, reader.group, groups);
      const std::int64_t first_row = reader.group * matrix.rows;
      const weights::RowSource values = source(i, first_row * matrix.width);
      if (may_change(i)) add_errors(i, groups, matrix, values, diagonal);
      if (!has_feedback(*format)) continue;
      if (!factor) factor.emplace(moments.sums, workers_);
      std::vector<std::byte>& blocks = out_.blocks[i];
      blocks.resize(static_cast<std::size_t>(format->bytes_of(parameter(i).num_elements())));
      if (groups > 1) rounded_groups_[i].push_back(reader.group);
      weights::encode_rows_with_feedback(
          matrix, files_->path(), values, *factor, workers_,
          blocks.data() + format->bytes_of(first_row * matrix.width));
    }
  }

  // Rounds the experts that no token of the text chose, if some had one.
  void finish(std::size_t i) {
    if (rounded_groups_[i].empty()) return;
    const std::int64_t groups = num_groups(i);
    for (std::int64_t group = 0; group < groups; ++group) {
      if (std::ranges::find(rounded_groups_[i], group) != rounded_groups_[i].end()) continue;
      const auto matrix = rows(i, out_.storages[i], group, groups);
      const std::int64_t first_row = group * matrix.rows;
      weights::encode_rows(
          matrix, files_->path(), source(i, first_row * matrix.width), workers_,
          out_.blocks[i].data() + matrix.format->bytes_of(first_row * matrix.width));
    }
  }

  // Adds the errors of one of the parameter's groups to the mean of all. Experts without a token
  // add nothing.
  void add_errors(std::size_t i, std::int64_t groups, weights::RowsToEncode matrix,
                  const weights::RowSource& values, std::span<const float> importance) {
    const auto error = [&] {
      return weights::rounding_error(matrix, files_->path(), values, importance, workers_) /
             static_cast<double>(groups);
    };
    FormatErrors& errors = errors_[i] ? *errors_[i] : errors_[i].emplace();
    errors.base += error();
    matrix.format = formats::format_for(weights::kBudgetFormat, matrix.width);
    errors.better += error();
  }

  // Without a text for them, by the weights alone.
  void measure() {
    std::vector<std::size_t> rest;
    for (std::size_t i = 0; i < out_.storages.size(); ++i)
      if (may_change(i) && !errors_[i]) rest.push_back(i);
    if (rest.empty()) return;
    for (std::size_t done = 0; done < rest.size(); ++done) {
      show(QuantiseStage::measuring, static_cast<std::int64_t>(done), std::ssize(rest));
      const std::size_t i = rest[done];
      add_errors(i, 1, rows(i, out_.storages[i], 0, 1), source(i, 0), {});
    }
    show(QuantiseStage::measuring, std::ssize(rest), std::ssize(rest));
  }

  void spend_bits() {
    measure();
    const std::vector<Storage> before = out_.storages;
    out_.storages = weights::spend_bits(model_, before, errors_, *method_.target_bits);
    std::int64_t changed = 0;
    for (std::size_t i = 0; i < before.size(); ++i)
      if (out_.storages[i] != before[i]) out_.blocks[i].clear(), ++changed;
    log::info("{} of {} matrices in {}: {:.3f} bits per value", changed,
              std::ranges::count_if(before, [](Storage s) { return s != nullptr; }),
              weights::kBudgetFormat, weights::bits_per_value(model_, out_.storages));
    const double needed = weights::bits_for_a_change(model_, before, errors_);
    if (changed == 0 && needed > 0)
      log::warning(
          "--target-bits: {} bits per value are too few for a change: the matrices of a layer's "
          "attention or feed-forward change together, and the smallest of these groups needs "
          "{:.3f}; give at least that",
          *method_.target_bits, needed);
  }

  const OpenedModel& from_;
  const decoder::Model& model_;
  const std::shared_ptr<io::WeightFiles>& files_;
  const weights::Quantisation& what_;
  const QuantiseMethod& method_;
  const Workers& workers_;
  weights::TensorMap map_;
  std::vector<bool> read_by_layers_;  // by parameter
  ChosenBlocks out_;
  std::vector<std::optional<FormatErrors>> errors_;
  std::vector<std::vector<std::int64_t>> rounded_groups_;  // of experts, by parameter
};

}  // namespace

void check_forms(decoder::Model& model, const io::WeightFiles& files,
                 std::span<const Storage> storages) {
  weights::set_quantised(model, {storages.begin(), storages.end()});
  weights::check_compressed(model, files);
  model.set_storage(std::vector<Storage>(storages.size()));
}

ChosenBlocks choose_blocks(const OpenedModel& from, const std::shared_ptr<io::WeightFiles>& files,
                           const weights::Quantisation& what, const QuantiseMethod& method,
                           const Workers& workers) {
  return Chooser(from, files, what, method, workers).run();
}

}  // namespace lamina::model
