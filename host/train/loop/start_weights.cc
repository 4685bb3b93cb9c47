#include "train/loop/start_weights.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>

#include "config/model_keys.h"
#include "core/error.h"
#include "core/log.h"
#include "core/suggest.h"
#include "weights/initialise.h"
#include "weights/quantise/quantise.h"
#include "weights/stored.h"
#include "weights/weights.h"

namespace lamina::train {
namespace {

constexpr std::string_view kFrom = "train.from", kFresh = "train.fresh";

std::string place_of(const config::KeyPlace& place, std::string_view key) {
  return place ? place(key) : std::string(key);
}

// train.fresh: patterns of names, and which of them named a parameter.
class Fresh {
 public:
  Fresh(const decoder::Model& model, const std::vector<std::string>& patterns)
      : patterns_(patterns), used_(patterns.size()) {
    const weights::TensorMap published = weights::published_tensors(model);
    for (std::size_t i = 0; i < model.parameters().all().size(); ++i)
      for (const weights::Piece& piece : published.pieces_of(static_cast<int>(i)))
        published_[model.parameters().all()[i].name].push_back(published.tensor_of(piece).name);
  }

  // True if a pattern names this parameter, which the directory lacks; `tensor` is its likely name
  // in the files, or "".
  bool names(const std::string& parameter, const std::string& tensor = {}) {
    lacking_.push_back(parameter);
    std::vector<std::string> all{parameter, tensor};
    if (const auto found = published_.find(parameter); found != published_.end())
      all.insert(all.end(), found->second.begin(), found->second.end());
    bool named = false;
    for (std::size_t i = 0; i < patterns_.size(); ++i)
      for (const std::string& name : all)
        if (!name.empty() && fnmatch(patterns_[i].c_str(), name.c_str(), 0) == 0)
          named = used_[i] = true;
    return named;
  }

  void check_all_used(const std::string& directory, const config::KeyPlace& place) const {
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      if (used_[i]) continue;
      std::vector<std::string> notes;
      std::vector<std::string> names = lacking_;
      for (const std::string& parameter : lacking_)
        if (const auto found = published_.find(parameter); found != published_.end())
          names.insert(names.end(), found->second.begin(), found->second.end());
      if (const std::string near = nearest_name(patterns_[i], names); !near.empty())
        notes.push_back(fmt::format("did you mean '{}'?", near));
      else if (lacking_.empty())
        notes.push_back(fmt::format("{} has every tensor of the model; remove it", directory));
      else
        notes.push_back(fmt::format("it lacks '{}'", lacking_.front()));
      throw UserError(ExitCode::usage,
                      {place_of(place, kFresh),
                       fmt::format("'{}' names no tensor that {} lacks", patterns_[i], directory),
                       std::move(notes)});
    }
  }

 private:
  const std::vector<std::string>& patterns_;
  std::vector<bool> used_;
  std::map<std::string, std::vector<std::string>> published_;
  std::vector<std::string> lacking_;
};

[[noreturn]] void refuse(const config::KeyPlace& place, std::string what,
                         const std::vector<std::string>& names, const std::string& last) {
  constexpr std::size_t kMaxNamed = 16;
  std::vector<std::string> notes(
      names.begin(),
      names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMaxNamed)));
  if (names.size() > kMaxNamed)
    notes.push_back(fmt::format("and {} more", names.size() - kMaxNamed));
  notes.push_back(last);
  throw UserError(ExitCode::checkpoint,
                  {place_of(place, kFrom), std::move(what), std::move(notes)});
}

bool has_integers(const decoder::Parameter& parameter) {
  return parameter.desc.dtype && !is_floating(*parameter.desc.dtype);
}

// True if the model has more rows of the same width, one per token.
bool is_grown(const decoder::Model& model, const decoder::Parameter& now,
              const decoder::Model& source, const Shape& before) {
  const Shape& shape = now.desc.shape;
  if (shape.ndim() != before.ndim() || shape.ndim() == 0) return false;
  // Another size of a layer's weights may equal the vocabulary by chance.
  if (now.layer >= 0 && !has_integers(now)) return false;
  return shape[0] == model.vocab_size() && before[0] == source.vocab_size() &&
         shape[0] > before[0] &&
         std::ranges::equal(shape.dims().subspan(1), before.dims().subspan(1));
}

// Sets the rows after the first `old` ones to the mean of the first ones.
void fill_new_rows(std::span<float> values, std::int64_t old, std::int64_t width) {
  std::vector<double> sums(static_cast<std::size_t>(width));
  for (std::int64_t i = 0; i < old * width; ++i)
    sums[static_cast<std::size_t>(i % width)] +=
        static_cast<double>(values[static_cast<std::size_t>(i)]);
  for (std::int64_t i = old * width; i < std::ssize(values); ++i)
    values[static_cast<std::size_t>(i)] =
        static_cast<float>(sums[static_cast<std::size_t>(i % width)] / static_cast<double>(old));
}

}  // namespace

StartWeights::StartWeights(const decoder::Model& model, const decoder::Model& source,
                           std::shared_ptr<const io::WeightFiles> files,
                           const std::string& directory, const std::vector<std::string>& fresh,
                           const config::KeyPlace& place)
    : source_(source), files_(std::move(files)) {
  std::map<std::string, std::string> absent;  // from the files, by parameter: its likely name there
  map_ = weights::match_weights(source, *files_,
                                [&](const std::string& parameter, const std::string& tensor) {
                                  absent.emplace(parameter, tensor);
                                  return true;
                                });
  Fresh patterns(model, fresh);
  bool lacks_predictions = false;
  std::vector<std::string> lacking, other_shapes, extra, dropped;
  for (const decoder::Parameter& p : model.parameters().all()) {
    const auto not_there = absent.find(p.name);
    const std::string tensor = not_there == absent.end() ? "" : not_there->second;
    const int from = tensor.empty() ? source.parameters().find(p.name) : -1;
    origin_.push_back(from);
    grows_.push_back(from >= 0 && !(source.parameters()[from].desc.shape == p.desc.shape));
    if (from < 0 && model.adapter() && decoder::is_adapter(p.name)) continue;
    if (from < 0) {
      if (patterns.names(p.name, tensor))
        fresh_.push_back(p.name);
      else
        lacking.push_back(fmt::format("'{}'", p.name));
      lacks_predictions = lacks_predictions || p.layer >= model.config().num_layers();
      continue;
    }
    if (!grows_.back()) continue;
    const Shape& before = source.parameters()[from].desc.shape;
    if (!is_grown(model, p, source, before))
      other_shapes.push_back(fmt::format("'{}' is {} there and {} in the model", p.name,
                                         to_string(before), to_string(p.desc.shape)));
    else if (patterns.names(p.name))
      grown_.push_back(p.name);
    else
      lacking.push_back(fmt::format("'{}': {} of its {} rows", p.name, p.desc.shape[0] - before[0],
                                    p.desc.shape[0]));
  }
  for (const decoder::Parameter& p : source.parameters().all())
    if (model.parameters().find(p.name) < 0 && !absent.contains(p.name)) {
      const bool predicts = p.layer >= source.config().num_layers();
      (predicts ? dropped : extra).push_back(fmt::format("'{}'", p.name));
    }
  if (!other_shapes.empty())
    refuse(place, fmt::format("{} has tensors of other shapes than the model", directory),
           other_shapes, "[model] must agree with it, except for more rows of the vocabulary");
  if (!extra.empty())
    refuse(place,
           fmt::format("{} has {} tensor{} that the model has no use for", directory, extra.size(),
                       extra.size() == 1 ? "" : "s"),
           extra, "[model] must agree with it: nothing that was trained is left out");
  if (!lacking.empty())
    refuse(place,
           fmt::format("{} lacks {} tensor{} of the model", directory, lacking.size(),
                       lacking.size() == 1 ? "" : "s"),
           lacking,
           lacks_predictions ? fmt::format("model.{} = 0 omits its prediction layers; or name "
                                           "them in train.fresh, to start fresh",
                                           config::kPredictionLayers)
                             : "name in train.fresh those that are to start fresh");
  if (!dropped.empty())
    log::info("{}: {} tensors of prediction layers are left out, since model.{} is {}", directory,
              dropped.size(), config::kPredictionLayers, model.mtp_depth());
  patterns.check_all_used(directory, place);
}

void StartWeights::read(int parameter, std::span<float> out) const {
  const int from = origin_[static_cast<std::size_t>(parameter)];
  const decoder::Parameter& p = source_.parameters()[from];
  const Shape& before = p.desc.shape;
  const bool grows = std::ssize(out) > before.num_elements();
  if (grows && has_integers(p)) weights::initialise(p, 0, out);  // a mean of ids is no id
  weights::read_values(source_, map_, *files_, from,
                       out.first(static_cast<std::size_t>(before.num_elements())));
  if (grows && !has_integers(p)) fill_new_rows(out, before[0], before.num_elements() / before[0]);
}

bool StartWeights::has_as(int parameter, DType dtype) const {
  const auto i = static_cast<std::size_t>(parameter);
  return is_whole(parameter) && weights::is_stored_as(map_, *files_, origin_[i], dtype);
}

const formats::BlockFormat* StartWeights::block_format(int parameter) const {
  const auto i = static_cast<std::size_t>(parameter);
  if (!is_whole(parameter)) return nullptr;
  return weights::stored_format(source_.parameters()[origin_[i]], map_, *files_, origin_[i]);
}

void StartWeights::read_blocks(int parameter, std::byte* out) const {
  weights::read_blocks(map_, *files_, origin_[static_cast<std::size_t>(parameter)], out);
}

void StartWeights::read_rounded(int parameter, const formats::BlockFormat& format,
                                std::byte* out) const {
  LAMINA_ASSERT(is_whole(parameter));
  const int from = origin_[static_cast<std::size_t>(parameter)];
  decoder::Parameter as = source_.parameters()[from];
  as.storage = &format;
  weights::read_quantised(as, map_, *files_, from, {}, out);
}

void StartWeights::check_are_plain(std::vector<int> parameters,
                                   const weights::Quantisation& what) const {
  for (int& p : parameters) p = origin_[static_cast<std::size_t>(p)];
  weights::check_are_plain(source_, parameters, what, map_, *files_);
}

void StartWeights::read_as(int parameter, DType dtype, std::byte* out) const {
  weights::read_as(map_, *files_, origin_[static_cast<std::size_t>(parameter)], dtype, out);
}

}  // namespace lamina::train
