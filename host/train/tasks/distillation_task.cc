// Trains on next tokens and on a teacher's predictions of them: Hinton et al. 2015, section 2. Also
// on the outputs of the teacher's layers: Romero et al. 2014 ("FitNets").
#include <fmt/format.h>

#include <string>

#include "config/layer_pair.h"
#include "core/error.h"
#include "train/loop/task.h"

namespace lamina::train {
namespace {

constexpr std::string_view kTeacher = "distillation.teacher", kTopK = "distillation.top_k";

class DistillationTask final : public Task {
 public:
  DistillationTask(const config::DistillationSection& section, const config::KeyPlace& place)
      : section_(section),
        teacher_place_(place ? place(kTeacher) : std::string(kTeacher)),
        top_k_place_(place ? place(kTopK) : std::string(kTopK)) {}

  decoder::TeacherShape teacher() const override {
    decoder::TeacherShape out{.any = true,
                              .top_k = section_.top_k,
                              .temperature = section_.temperature,
                              .distance = section_.hidden_loss == "mse"
                                              ? decoder::HiddenDistance::mse
                                              : decoder::HiddenDistance::cosine};
    for (const std::string& text : section_.hidden_layers) {
      const config::LayerPair pair = config::parse_layer_pair(text).value();
      out.layers.push_back({pair.student, pair.teacher});
    }
    return out;
  }
  double label_weight() const override { return 1 - section_.alpha; }
  // Gradients of a divergence at temperature T are smaller by 1 / T^2.
  void weigh(LossWeights& weights) const override {
    weights["kl"] = section_.alpha * section_.temperature * section_.temperature;
    weights["hidden"] = section_.hidden_weight;
  }

  // Validation has no teacher.
  decoder::ModelGraph loss_graph(const decoder::Model& model, const decoder::GraphShape& shape,
                                 const decoder::GraphFeatures& features) const override {
    if (model.options().head.no_loss)
      throw UserError(ExitCode::usage,
                      {teacher_place_,
                       fmt::format("has nothing to teach family '{}', which has no loss of tokens",
                                   model.family().name()),
                       {"remove [distillation]"}});
    if (section_.top_k > model.vocab_size())
      throw UserError(ExitCode::usage, {top_k_place_,
                                        fmt::format("is {}; the vocabulary has {} tokens",
                                                    section_.top_k, model.vocab_size()),
                                        {"give fewer, or 0 for all of them"}});
    decoder::GraphFeatures all = features;
    if (features.training) all.teacher = teacher();
    return model.loss_graph(shape, all);
  }

 private:
  config::DistillationSection section_;
  std::string teacher_place_, top_k_place_;
};

}  // namespace

std::shared_ptr<const Task> distillation_task(const config::DistillationSection& section,
                                              const config::KeyPlace& place) {
  return std::make_shared<const DistillationTask>(section, place);
}

}  // namespace lamina::train
