#include "support/maxtext_case.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "inspect/verify/forward.h"
#include "inspect/verify/prediction.h"
#include "inspect/verify/report.h"
#include "program/records.h"
#include "runtime/host_access.h"
#include "support/goldens.h"
#include "support/maxtext_model.h"
#include "support/models.h"
#include "train/loop/eval_step.h"
#include "train/loop/train_step.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

// A number that each layer reports.
struct Kept {
  const char* ours;
  const char* theirs;      // after "sown.", with {} for the layer's folder
  const char* weight_key;  // their value includes this weight
  const char* total;       // its mean over layers
};
constexpr Kept kKept[] = {
    {"moe_lb_loss", "{}moe_lb_loss", "load_balance_loss_weight", "aux.moe_lb_loss"},
    {"indexer_loss", "indexer_losses/{}self_attention/indexer_loss", "indexer_loss_weight",
     "aux.indexer_loss"},
    {"activation_mean", "{}activation_mean", nullptr, nullptr},
    {"activation_stdev", "{}activation_stdev", nullptr, nullptr},
    {"activation_zeros", "{}activation_fraction_zero", nullptr, nullptr},
};

class Comparison : MaxTextModel {
 public:
  Comparison(const fs::path& directory, bool scan_layers, bool disturbed, const Backend& backend)
      : MaxTextModel(directory, scan_layers, disturbed), backend_(backend) {}

  std::vector<MaxTextRow> run() {
    forward();
    if (!model_.options().exports_as.empty()) compare_exports();
    const bool sums_balance = microbatches() > 1 && config_.balance_weight > 0;
    train_step(model_, sums_balance ? "big_batch_" : "", true);
    // The gradients of sums over tokens and of each microbatch's balance loss, divided together by
    // the tokens. Ours take the balance loss as a mean over microbatches.
    if (sums_balance) {
      const double labels = static_cast<double>(case_.floats("aux.total_weights")[0]);
      const double share = static_cast<double>(microbatches()) / labels;
      train_step(with_balance_weight(config_.balance_weight * share), "", false);
    }
    return std::move(out_);
  }

 private:
  void add(std::string quantity, std::span<const float> got, std::span<const float> want,
           double allowed) {
    out_.push_back({std::move(quantity), inspect::max_abs_difference(got, want), allowed,
                    std::vector(got.begin(), got.end())});
  }
  void add(std::string quantity, double got, double want, double allowed) {
    out_.push_back({std::move(quantity), std::abs(got - want), allowed, {static_cast<float>(got)}});
  }

  void forward() {
    const std::vector<ConstTensorRef> pointers = parameters_of(parameters_);
    inspect::ForwardResult got =
        inspect::forward(model_, pointers, rows_, {.hidden = true}, backend_);
    auto compare = [&](const std::string& name, std::vector<float> values) {
      if (!case_.has(name)) return;
      std::vector<float> want = case_.floats(name);
      std::size_t width = want.size() / rows_.segments.size();
      for (std::size_t i = 0; i < want.size() && values.size() == want.size(); ++i)
        if (rows_.segments[i / width] == 0) values[i] = want[i];
      add(name, values, want, 1e-4 * inspect::max_abs(want));
    };
    const std::size_t per_layer = config_.stacking == Stacking::pairs ? 2 : 1;
    compare("hidden.embed", first_stream(got.hidden[0]));
    for (std::size_t i = per_layer; i < got.hidden.size(); i += per_layer)
      compare(fmt::format("hidden.{}", i / per_layer - 1), got.hidden[i]);
    compare("logits", got.logits);
    if (model_.mtp_depth() == 0) return;
    prediction(pointers, compare);
    evaluate(pointers);
  }

  // Returns the first stream of [B, T, K, D]; their values come from before the streams are made.
  std::vector<float> first_stream(const std::vector<float>& x) const {
    const auto width = static_cast<std::size_t>(model_.hidden_size());
    const std::size_t stride = x.size() / rows_.ids.size();
    std::vector<float> out;
    for (std::size_t t = 0; t < rows_.ids.size(); ++t)
      for (std::size_t d = 0; d < width; ++d) out.push_back(x[t * stride + d]);
    return out;
  }

  // Compares the outputs and losses of each depth of multi-token prediction.
  template <typename Compare>
  void prediction(std::span<const ConstTensorRef> parameters, Compare compare) {
    const inspect::Prediction got =
        inspect::predict(model_, parameters, rows_, DType::f32, backend_);
    const std::size_t depth = static_cast<std::size_t>(model_.mtp_depth());
    std::vector<float> losses;
    for (std::size_t j = 0; j < depth; ++j) {
      auto part = [&](const std::vector<float>& all) {
        const std::size_t size = all.size() / depth;
        const float* first = all.data() + j * size;
        return std::vector<float>(first, first + size);
      };
      const std::vector<float> logits = part(got.logits);
      compare(fmt::format("mtp.{}.hidden", j + 1), part(got.hidden));
      compare(fmt::format("mtp.{}.logits", j + 1), logits);
      losses.push_back(static_cast<float>(cross_entropy(logits, static_cast<std::int64_t>(j))));
    }
    add("sown.mtp_losses", losses, case_.floats("sown.mtp_losses/mtp_block/losses"), 1e-3);
  }

  // Returns the sum over the labels of the depth.
  double cross_entropy(std::span<const float> logits, std::int64_t depth) const {
    const auto vocab = static_cast<std::size_t>(model_.vocab_size());
    double out = 0;
    for (std::int64_t b = 0; b < rows_.batch; ++b)
      for (std::int64_t t = 0; t + 1 + depth < rows_.tokens; ++t) {
        const std::int64_t at = b * rows_.tokens + t, ahead = at + 1 + depth;
        const std::int32_t label = rows_.labels[static_cast<std::size_t>(ahead)];
        if (label < 0 || rows_.segments[static_cast<std::size_t>(ahead - 1)] !=
                             rows_.segments[static_cast<std::size_t>(ahead)])
          continue;
        const auto row = logits.subspan(static_cast<std::size_t>(at) * vocab, vocab);
        double sum = 0;
        for (float logit : row) sum += std::exp(static_cast<double>(logit));
        out += std::log(sum) - static_cast<double>(row[static_cast<std::size_t>(label)]);
      }
    return out;
  }

  // Compares the validation of a run. Theirs covers one depth.
  void evaluate(std::span<const ConstTensorRef> parameters) {
    if (!case_.has("eval.mtp_acceptance_percent")) return;
    train::EvalStep step(model_, rows_.batch, rows_.tokens, DType::f32, true, backend_);
    const train::EvalSums got = step.run(rows_.microbatch(), parameters);
    const auto target = static_cast<std::size_t>(config_.mtp_eval_target_module);
    LAMINA_ASSERT(target >= 1);  // golden.json names the module
    add("eval.mtp_acceptance_percent", 100 * got.mtp_acceptance().at(target - 1),
        static_cast<double>(case_.floats("eval.mtp_acceptance_percent")[0]), 1e-5);
    const std::vector<float> counts(got.mtp_counted.begin(), got.mtp_counted.end());
    add("sown.mtp_weights", counts, case_.floats("sown.mtp_losses/mtp_block/weights"), 0);
  }

  // Compares attention matrices that are computed for an export: theirs are [in, out].
  void compare_exports() {
    const std::pair<const char*, const char*> names[] = {{"attention.wq.weight", "query"},
                                                         {"attention.wk.weight", "key"},
                                                         {"attention.wv.weight", "value"},
                                                         {"attention.wo.weight", "out"}};
    std::vector<std::string> tags;
    for (auto [ours, theirs] : names) tags.push_back(registry::export_tag(ours));
    const std::vector<ConstTensorRef> pointers = parameters_of(parameters_);
    const program::LayerRecords made = program::record_layers(
        model_, pointers, program::rows_of({0}, std::vector<std::int32_t>{-100}, 1, 1), DType::f32,
        tags, backend_);
    for (const auto& [at, records] : made) {
      const std::size_t i =
          static_cast<std::size_t>(std::ranges::find(tags, at.second) - tags.begin());
      const std::string name = fmt::format(
          "collapsed.{}self_attention/{}/kernel",
          maxtext_place(at.first, model_.config().num_layers(), config_).folder, names[i].second);
      const Shape shape = records[0].shape, kernel = case_.shape(name);
      const double factor =
          i == 0 && config_.query_scaled ? 1 / std::sqrt(static_cast<double>(kernel[-1])) : 1;
      std::vector<float> got;
      for (std::int64_t k = 0; k < shape.num_elements(); ++k)
        got.push_back(static_cast<float>(
            factor * static_cast<double>(records[0].values[static_cast<std::size_t>(
                         k % shape[0] * shape[1] + k / shape[0])])));
      const std::vector<float> want = case_.floats(name);
      add(name, got, want, 2e-5 * inspect::max_abs(want));
    }
  }

  // Compares gradients, called `prefix`grad.<name>; with `values` also the loss and the layers'
  // reports.
  void train_step(const decoder::Model& model, const std::string& prefix, bool values) {
    train::TrainState state(model.parameters(), DType::f32, microbatches() > 1, backend_);
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      write_tensor<float>(state.queue(), state.masters()[i], [&](std::span<float> to) {
        std::ranges::copy(parameters_[i], to.begin());
      });
    state.refresh_copies();
    std::int64_t rows = rows_.batch / microbatches();
    decoder::GraphFeatures features = train::all_losses();
    features.layer_metrics = true;
    train::TrainStep step(model, state,
                          {.shape = {rows, rows_.tokens},
                           .features = features,
                           .microbatches = microbatches(),
                           .z_loss = config_.run.train.z_loss},
                          {}, backend_);
    std::vector<program::Microbatch> batches;
    for (std::int64_t m = 0; m < microbatches(); ++m) batches.push_back(rows_.microbatch(m * rows));
    train::StepResult result = step.gradients(batches, 0);
    if (values) compare_values(result);
    compare_gradients(state, prefix);
    if (!values) return;
    step.update(result, 0, 0);
    compare_updates(state);
  }

  void compare_values(const train::StepResult& result) {
    auto compare = [&](const std::string& name, double got) {
      if (!case_.has(name)) return;
      const double want = static_cast<double>(case_.floats(name)[0]);
      add(name, got, want, 1e-5 * std::abs(want));
    };
    const double z_loss = config_.run.train.z_loss * result.mean_of("z_loss");
    const auto labels = static_cast<double>(result.num_labels);
    compare("loss", result.total);
    compare("big_batch_loss", result.total);
    compare("aux.xent_sum", (result.loss + z_loss) * labels);
    compare("aux.total_weights", labels);
    compare("aux.z_loss", z_loss);
    compare("aux.mtp_loss", result.mean_of("mtp_loss"));
    compare("eval.loss", result.total - result.mean_of("mtp_loss"));
    for (const Kept& kept : kKept) {
      const double weight = kept.weight_key && has(result, kept.ours)
                                ? model_.config().values().number(kept.weight_key)
                                : 1;
      // Theirs is the sum over microbatches.
      const double times = weight * static_cast<double>(microbatches());
      if (kept.total) compare(kept.total, times * number(result, kept.ours));
      compare_kept(result, kept, weight);
    }
  }

  static bool has(const train::StepResult& result, const std::string& name) {
    return std::ranges::any_of(result.aux_scalars, [&](const auto& s) { return s.name == name; });
  }
  // Returns 0 if no layer reports it.
  static double number(const train::StepResult& result, const std::string& name) {
    for (const train::AuxScalar& scalar : result.aux_scalars)
      if (scalar.name == name) return scalar.value;
    return 0;
  }

  // Compares all layers of one stack at once.
  void compare_kept(const train::StepResult& result, const Kept& kept, double weight) {
    std::map<std::string, std::vector<float>> got;
    const std::int64_t num_layers = model_.config().num_layers();
    for (std::int64_t layer = 0; layer < num_layers + model_.mtp_depth(); ++layer) {
      const MaxTextPlace place = maxtext_place(layer, num_layers, config_);
      std::string name = "sown." + fmt::format(fmt::runtime(kept.theirs), place.folder);
      if (!case_.has(name)) name += "/0";
      if (!case_.has(name)) continue;
      std::vector<float>& values = got[name];
      values.resize(static_cast<std::size_t>(case_.shape(name).num_elements()), NAN);
      const std::size_t at = place.at.empty() ? 0 : static_cast<std::size_t>(place.at[0]);
      values.at(at) = static_cast<float>(
          weight * number(result, fmt::format("{}/layer_{:03}", kept.ours, layer)));
    }
    for (const auto& [name, values] : got) {
      const std::vector<float> want = case_.floats(name);
      add(name, values, want, 1e-5 * inspect::max_abs(want) + 1e-7);
    }
  }

  // Compares the changes of the routers' correction biases in a step.
  void compare_updates(const train::TrainState& state) {
    std::map<std::string, std::vector<float>> got;
    const auto& parameters = model_.parameters().all();
    const std::int64_t num_layers = model_.config().num_layers();
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      if (!parameters[k].desc.name.ends_with("correction_bias")) continue;
      const MaxTextPlace place = maxtext_place(parameters[k].layer, num_layers, config_);
      const std::string name = fmt::format("sown.{}moe_bias_updates/0", place.folder);
      if (!case_.has(name)) continue;
      std::vector<float>& values = got[name];
      values.resize(static_cast<std::size_t>(case_.shape(name).num_elements()), NAN);
      const std::size_t width = parameters_[k].size();
      const std::size_t at = place.at.empty() ? 0 : static_cast<std::size_t>(place.at[0]);
      const std::vector<float> updated = copy_to_host<float>(state.queue(), state.masters()[k]);
      for (std::size_t i = 0; i < width; ++i)
        values.at(at * width + i) = updated[i] - parameters_[k][i];
    }
    // The sum rounds to a unit in the last place of the bias.
    for (const auto& [name, values] : got) add(name, values, case_.floats(name), 1e-7);
  }

  // Gathers our gradients under their names: one entry per stack of layers.
  void compare_gradients(const train::TrainState& state, const std::string& prefix) {
    std::map<std::string, std::vector<float>> theirs;
    const auto& parameters = model_.parameters().all();
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      // A parameter that is frozen here has none.
      const std::vector<float> ours = state.gradients()[k]
                                          ? copy_to_host<float>(state.queue(), state.gradients()[k])
                                          : std::vector<float>();
      for (const MaxTextTensor& to : names_[k]) {
        std::vector<float>& out = theirs[to.name()];
        out.resize(static_cast<std::size_t>(to.shape().num_elements()));
        for (std::int64_t i = 0; i < to.num_elements(); ++i)
          out[to.index(i)] =
              ours.empty() ? 0 : to.gradient(ours[static_cast<std::size_t>(to.first() + i)]);
      }
    }
    double largest = 0;
    for (auto& [name, values] : theirs) largest = std::max(largest, inspect::max_abs(values));
    for (std::string_view name : files_.names()) {
      const std::vector<float>& got = theirs[std::string(name)];
      std::string whole = fmt::format("{}grad.{}", prefix, name),
                  sample = fmt::format("grad_sample.{}", name),
                  norm = fmt::format("grad_norm.{}", name);
      auto allowed = [&](std::span<const float> want) {
        return 1e-4 * inspect::max_abs(want) + 1e-6 * largest;
      };
      if (case_.has(whole)) {
        std::vector<float> want = case_.floats(whole);
        add(whole, got, want, allowed(want));
        continue;
      }
      std::vector<float> want = case_.floats(sample), picked(want.size());
      for (std::size_t i = 0; i < picked.size() && !got.empty(); ++i)
        picked[i] = got[i * 2654435761u % got.size()];
      add(sample, picked, want, allowed(want));
      double sum = 0, wanted_norm = static_cast<double>(case_.floats(norm)[0]);
      for (float g : got) sum += static_cast<double>(g) * static_cast<double>(g);
      add(norm, std::sqrt(sum), wanted_norm, 1e-4 * wanted_norm + 1e-6 * largest);
    }
  }

  const Backend& backend_;
  std::vector<MaxTextRow> out_;
};

}  // namespace

std::vector<fs::path> maxtext_models() {
  std::vector<fs::path> out = golden_folders("maxtext", "model.safetensors");
  std::erase_if(out, [](const fs::path& folder) {
    const inspect::GoldenCase golden(folder.string());
    return !golden.has("aux.total_weights") && !golden.has("logits");
  });
  return out;
}

std::string reason_to_skip_maxtext(const fs::path& directory) {
  return maxtext_config(directory).reason;
}

std::vector<MaxTextRow> compare_maxtext(const fs::path& directory, bool scan_layers,
                                        const Backend& backend) {
  std::vector<MaxTextRow> rows = Comparison(directory, scan_layers, false, backend).run();
  auto fails = [](const MaxTextRow& row) { return !(row.error <= row.allowed); };
  if (std::ranges::none_of(rows, fails)) return rows;
  const std::vector<MaxTextRow> disturbed = Comparison(directory, scan_layers, true, backend).run();
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i].allowed =
        std::max(rows[i].allowed, 8 * inspect::max_abs_difference(rows[i].ours, disturbed[i].ours));
  return rows;
}

}  // namespace lamina::testing
