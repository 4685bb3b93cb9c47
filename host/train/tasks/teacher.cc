#include "train/tasks/teacher.h"

#include <utility>

namespace lamina::train {
namespace {

using decoder::Input;
using decoder::Output;

program::BoundProgram program_of(const decoder::Model& model, const decoder::GraphShape& shape,
                                 const decoder::TeacherShape& told, const Backend& backend) {
  return {model.teacher_graph(shape, {.segments = true, .teacher = told}), backend};
}

std::size_t num_told(const decoder::Model& model, std::int64_t tokens,
                     const decoder::TeacherShape& told) {
  return static_cast<std::size_t>(tokens * told.num_tokens(model.vocab_size()));
}

std::size_t num_hidden(const decoder::Model& model, std::int64_t tokens,
                       const decoder::TeacherShape& told) {
  if (told.layers.empty()) return 0;
  return told.layers.size() * static_cast<std::size_t>(tokens * model.layer_width());
}

}  // namespace

TeacherBytes teacher_bytes(const decoder::Model& model, const decoder::GraphShape& shape,
                           const decoder::TeacherShape& told, const Backend& backend) {
  TeacherBytes out;
  for (const decoder::Parameter& p : model.parameters().all())
    out.weights += static_cast<std::size_t>(p.used_type(shape.dtype).bytes());
  const std::size_t each = sizeof(float) + (told.top_k > 0 ? sizeof(std::int32_t) : 0);
  const std::int64_t tokens = shape.batch * shape.tokens;
  out.temporaries = program_of(model, shape, told, backend).arena_bytes() +
                    num_told(model, tokens, told) * each +
                    num_hidden(model, tokens, told) * sizeof(float);
  return out;
}

Teacher::Teacher(TeacherModel teacher, std::int64_t rows, std::int64_t tokens,
                 const decoder::TeacherShape& told, const Backend& backend)
    : teacher_(std::move(teacher)),
      program_(program_of(*teacher_.model, {rows, tokens, teacher_.dtype}, told, backend)),
      arena_(backend.allocate(program_.arena_bytes())),
      logp_(num_told(*teacher_.model, rows * tokens, told)),
      ids_(told.top_k > 0 ? logp_.size() : 0),
      hidden_(num_hidden(*teacher_.model, rows * tokens, told)) {
  program_.bind_parameters(teacher_.weights);
  program_.bind(Output::teacher_logp, logp_.data());
  program_.bind(Output::teacher_ids, ids_.data());
  program_.bind(Output::teacher_hidden, hidden_.data());
}

void Teacher::run(const program::Microbatch& batch) {
  batch.bind(program_);
  program_.run(*arena_);
}

void Teacher::bind(program::BoundProgram& step) {
  step.bind(Input::teacher_logp, logp_.data());
  step.bind(Input::teacher_ids, ids_.data());
  step.bind(Input::teacher_hidden, hidden_.data());
}

std::size_t Teacher::temporary_bytes() const {
  return arena_->bytes() + (logp_.size() + hidden_.size()) * sizeof(float) +
         ids_.size() * sizeof(std::int32_t);
}

}  // namespace lamina::train
