#include "support/maxtext_case.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "backends/cpu/backend.h"
#include "cli/verify/case.h"
#include "support/maxtext_config.h"
#include "support/maxtext_names.h"
#include "support/models.h"
#include "train/train_step.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

class Comparison {
 public:
  // disturbed: with weights that differ by a relative 1e-7, up or down.
  Comparison(const fs::path& directory, bool scan_layers, bool disturbed)
      : case_(directory.string()),
        files_(directory.string()),
        config_(maxtext_config(directory)),
        model_(open_description(config_.model, scan_layers)) {
    Shape shape = case_.shape("inputs");
    rows_.batch = shape[0];
    rows_.tokens = shape[1];
    rows_.ids = case_.ints("inputs");
    rows_.positions = case_.ints("inputs_position");
    rows_.segments = case_.ints("inputs_segmentation");
    rows_.labels = case_.ints("targets");
    std::vector<std::int32_t> counted = case_.ints("targets_segmentation");
    for (std::size_t i = 0; i < counted.size(); ++i)
      if (counted[i] == 0) rows_.labels[i] = -100;
    for (const decoder::Parameter& p : model_.parameters().all()) {
      const MaxTextTensor& from =
          names_.emplace_back(p, model_.config().num_layers(), config_, files_);
      const auto* theirs = reinterpret_cast<const float*>(files_.tensor(from.name()).bytes.data());
      std::vector<float> ours(static_cast<std::size_t>(p.num_elements()));
      for (std::size_t i = 0; i < ours.size(); ++i)
        ours[i] = from.ours(theirs[from.index(static_cast<std::int64_t>(i))]);
      if (disturbed) disturb(ours, 1e-7);
      parameters_.push_back(std::move(ours));
    }
  }

  std::vector<MaxTextRow> run() {
    forward();
    gradients();
    return std::move(out_);
  }

 private:
  void add(std::string quantity, std::span<const float> got, std::span<const float> want,
           double allowed) {
    out_.push_back({std::move(quantity), cli::max_abs_difference(got, want), allowed,
                    std::vector(got.begin(), got.end())});
  }
  void add(std::string quantity, double got, double want, double allowed) {
    out_.push_back({std::move(quantity), std::abs(got - want), allowed, {static_cast<float>(got)}});
  }

  void forward() {
    std::vector<void*> pointers;
    for (auto& p : parameters_) pointers.push_back(p.data());
    ForwardResult got = forward_with_hidden(model_, pointers, rows_);
    // Theirs lets padding attend to padding; ours leaves it alone. Nobody reads those places.
    auto compare = [&](const std::string& name, std::vector<float> values) {
      if (!case_.has(name)) return;
      std::vector<float> want = case_.floats(name);
      std::size_t width = want.size() / rows_.segments.size();
      for (std::size_t i = 0; i < want.size() && values.size() == want.size(); ++i)
        if (rows_.segments[i / width] == 0) values[i] = want[i];
      add(name, values, want, 1e-4 * cli::max_abs(want));
    };
    const std::size_t per_layer = config_.stacking == Stacking::pairs ? 2 : 1;
    compare("hidden.embed", got.hidden[0]);
    for (std::size_t i = per_layer; i < got.hidden.size(); i += per_layer)
      compare(fmt::format("hidden.{}", i / per_layer - 1), got.hidden[i]);
    compare("logits", got.logits);
  }

  void gradients() {
    train::TrainState state(model_.parameters(), DType::f32, config_.microbatches > 1,
                            cpu::cpu_backend());
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      std::ranges::copy(parameters_[i], state.masters()[i]);
    state.refresh_copies();
    std::int64_t rows = rows_.batch / config_.microbatches;
    train::TrainStep step(model_, state,
                          {.rows = rows,
                           .tokens = rows_.tokens,
                           .microbatches = config_.microbatches,
                           .z_loss = config_.z_loss},
                          {}, cpu::cpu_backend());
    std::vector<train::Microbatch> batches;
    for (std::int64_t m = 0; m < config_.microbatches; ++m)
      batches.push_back(rows_.microbatch(m * rows));
    train::StepResult result = step.gradients(batches, 0);
    double loss = result.loss + config_.z_loss * result.z_loss;
    double want = static_cast<double>(case_.floats("loss")[0]);
    add("loss", loss, want, 1e-5 * std::abs(want));
    compare_gradients(state);
  }

  // Ours, gathered under their names: one entry a stack of layers.
  void compare_gradients(const train::TrainState& state) {
    std::map<std::string, std::vector<float>> theirs;
    const auto& parameters = model_.parameters().all();
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      const MaxTextTensor& to = names_[k];
      std::vector<float>& out = theirs[to.name()];
      out.resize(static_cast<std::size_t>(to.shape().num_elements()));
      const auto* ours = static_cast<const float*>(state.gradients()[k]);
      for (std::int64_t i = 0; i < parameters[k].num_elements(); ++i)
        out[to.index(i)] = to.gradient(ours[i]);
    }
    double largest = 0;
    for (auto& [name, values] : theirs) largest = std::max(largest, cli::max_abs(values));
    for (std::string_view name : files_.names()) {
      const std::vector<float>& got = theirs[std::string(name)];
      std::string whole = fmt::format("grad.{}", name),
                  sample = fmt::format("grad_sample.{}", name),
                  norm = fmt::format("grad_norm.{}", name);
      auto allowed = [&](std::span<const float> want) {
        return 1e-4 * cli::max_abs(want) + 1e-6 * largest;
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
      add(norm, std::sqrt(sum), wanted_norm, 1e-4 * wanted_norm);
    }
  }

  cli::GoldenCase case_;
  io::WeightFiles files_;
  MaxTextConfig config_;
  decoder::Model model_;
  Rows rows_;
  std::vector<MaxTextTensor> names_;  // one a parameter
  std::vector<std::vector<float>> parameters_;
  std::vector<MaxTextRow> out_;
};

}  // namespace

std::string reason_to_skip_maxtext(const fs::path& directory) {
  if (!fs::exists(directory / "model.safetensors")) return "has no weights";
  return maxtext_config(directory).reason;
}

std::vector<MaxTextRow> compare_maxtext(const fs::path& directory, bool scan_layers) {
  std::vector<MaxTextRow> rows = Comparison(directory, scan_layers, false).run();
  auto fails = [](const MaxTextRow& row) { return !(row.error <= row.allowed); };
  if (std::ranges::none_of(rows, fails)) return rows;
  const std::vector<MaxTextRow> disturbed = Comparison(directory, scan_layers, true).run();
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i].allowed =
        std::max(rows[i].allowed, 8 * cli::max_abs_difference(rows[i].ours, disturbed[i].ours));
  return rows;
}

}  // namespace lamina::testing
