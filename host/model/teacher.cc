#include "model/teacher.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <tuple>
#include <utility>

#include "config/layer_pair.h"
#include "core/error.h"
#include "core/printable.h"
#include "decoder/call_limits.h"
#include "model/load.h"
#include "text/token_difference.h"

namespace lamina::model {
namespace {

constexpr std::string_view kTeacher = "distillation.teacher";
constexpr const char* kRemedy = "choose a teacher with the tokenizer of the student";

void check_present(const config::RunConfig& run) {
  const std::string& path = run.distillation.teacher;
  std::error_code ec;
  if (std::filesystem::exists(path, ec)) return;
  throw UserError(
      ExitCode::checkpoint,
      {config::place_in(run)(kTeacher),
       fmt::format("{} does not exist", path),
       {"give a directory with a model, a GGUF file, a checkpoint or a run",
        "checkpoints do not contain the teacher: a resumed run needs it at the same path"}});
}

// Checks that the layers of each pair exist, and that their outputs can be compared.
void check_hidden_layers(const config::RunConfig& run, const decoder::Model& teacher,
                         const decoder::Model& student) {
  const auto refuse = [&](std::string what, std::string remedy) {
    throw UserError(ExitCode::usage, {config::place_in(run)("distillation.hidden_layers"),
                                      std::move(what),
                                      {std::move(remedy)}});
  };
  for (const std::string& text : run.distillation.hidden_layers) {
    const config::LayerPair pair = config::parse_layer_pair(text).value();
    for (const auto& [layer, model, name] :
         {std::tuple{pair.student, &student, std::string("the student")},
          std::tuple{pair.teacher, &teacher, run.distillation.teacher}})
      if (const std::int64_t count = model->config().num_layers(); layer.value_or(0) >= count)
        refuse(fmt::format("'{}' refers to layer {} of {}, which has layers 0 to {}", text, *layer,
                           name, count - 1),
               "use one of these, or \"last\"");
  }
  if (run.distillation.hidden_layers.empty()) return;
  if (const std::int64_t theirs = teacher.layer_width(), ours = student.layer_width();
      theirs != ours)
    refuse(fmt::format("the layers of {} have {} values per token, the student's have {}",
                       run.distillation.teacher, theirs, ours),
           "choose a teacher of the same width, or remove the key: logits are compared without it");
}

void check_model(const config::RunConfig& run, const decoder::Model& teacher,
                 const decoder::Model& student) {
  if (teacher.vocab_size() != student.vocab_size())
    throw UserError(
        ExitCode::usage,
        {config::place_in(run)(kTeacher),
         fmt::format("{} has a vocabulary of {} tokens, but the student has {}",
                     run.distillation.teacher, teacher.vocab_size(), student.vocab_size()),
         {kRemedy}});
  if (teacher.options().head.no_loss || teacher.is_autoregressive() != student.is_autoregressive())
    throw UserError(
        ExitCode::usage,
        {config::place_in(run)(kTeacher),
         fmt::format("{} does not predict the same as family '{}'", run.distillation.teacher,
                     student.family().name()),
         {"choose a teacher that predicts the next token from the previous ones, like the "
          "student"}});
  check_hidden_layers(run, teacher, student);
  decoder::check_training_length(teacher, run.data.sequence_length,
                                 "data.sequence_length, for distillation.teacher");
}

// `theirs` may be null.
void check_tokenizer(const config::RunConfig& run, const text::Tokenizer& ours,
                     const text::Tokenizer* theirs) {
  if (!theirs) return;
  if (const auto other = text::first_difference(ours, *theirs))
    throw UserError(ExitCode::usage,
                    {config::place_in(run)(kTeacher),
                     fmt::format("gives token {} the text '{}'; the student gives it '{}'",
                                 other->id, printable(other->theirs), printable(other->ours)),
                     {kRemedy}});
}

}  // namespace

std::unique_ptr<decoder::Model> describe_teacher(const config::RunConfig& run,
                                                 const registry::Catalog& plugins,
                                                 const decoder::Model& student) {
  const std::string& path = run.distillation.teacher;
  if (path.empty()) return nullptr;
  check_present(run);
  std::unique_ptr<decoder::Model> out =
      std::move(open(path, plugins, {.compress_tokens = decoder::uncompressed_tokens}).model);
  check_model(run, *out, student);
  return out;
}

std::vector<train::TeacherModel> open_teachers(const config::RunConfig& run,
                                               const registry::Catalog& plugins,
                                               const decoder::Model& student,
                                               const text::Tokenizer& tokenizer,
                                               const std::vector<const Backend*>& backends) {
  const std::string& path = run.distillation.teacher;
  if (path.empty()) return {};
  check_present(run);
  const DType dtype = run.distillation.dtype;
  // The weights on one device, and the first device's, with the model of all.
  struct Copy {
    std::shared_ptr<const Loaded> first;
    weights::Weights weights;
  };
  return while_training(path, [&] {
    const auto first =
        std::make_shared<const Loaded>(load(path, plugins, dtype, *backends.front()));
    check_model(run, first->model(), student);
    check_tokenizer(run, tokenizer, first->tokenizer.get());
    std::vector<train::TeacherModel> out;
    const auto add = [&](const auto& owner, const weights::Weights& weights) {
      const std::span<const ConstTensorRef> tensors = weights.pointers();
      out.push_back({{owner, first->opened.model.get()}, {tensors.begin(), tensors.end()}, dtype});
    };
    add(first, first->weights);
    for (std::size_t i = 1; i < backends.size(); ++i) {
      const auto copy = std::make_shared<const Copy>(
          first, weights::Weights::load(first->model(), first->opened.weight_files(), dtype,
                                        *backends[i]));
      add(copy, copy->weights);
    }
    return out;
  });
}

}  // namespace lamina::model
