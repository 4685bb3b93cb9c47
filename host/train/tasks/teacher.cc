#include "train/tasks/teacher.h"

#include <algorithm>
#include <array>
#include <utility>

#include "decoder/roles/roles.h"

namespace lamina::train {
namespace {

using decoder::Input;
using decoder::Output;

// The outputs of a teacher, and the inputs of the step that read them.
constexpr std::array kTold = {std::pair{Output::teacher_logp, Input::teacher_logp},
                              std::pair{Output::teacher_ids, Input::teacher_ids},
                              std::pair{Output::teacher_hidden, Input::teacher_hidden}};

program::BoundProgram program_of(const decoder::Model& model, const decoder::GraphShape& shape,
                                 const decoder::TeacherShape& told, const Backend& backend) {
  return {model.teacher_graph(shape, {.segments = true, .teacher = told}), backend};
}

// Calls add(pair of kTold, type) for each output that the program has.
template <typename Add>
void each_output(const program::BoundProgram& program, const Add& add) {
  const Graph& graph = program.program().graph();
  for (const auto& told : kTold)
    for (std::size_t o = 0; o < program.output_roles().size(); ++o)
      if (program.output_roles()[o].role == told.first)
        add(told, graph.type(graph.outputs()[o].value));
}

}  // namespace

TeacherBytes teacher_bytes(const decoder::Model& model, const decoder::GraphShape& shape,
                           const decoder::TeacherShape& told, const Backend& backend) {
  TeacherBytes out;
  for (const decoder::Parameter& p : model.parameters().all())
    out.weights += aligned(static_cast<std::size_t>(p.used_type(shape.dtype).bytes()));
  const program::BoundProgram program = program_of(model, shape, told, backend);
  out.temporaries = program.arena_bytes();
  if (!backend.reaches(MemoryKind::host)) {
    const Graph& graph = program.program().graph();
    for (std::size_t i = 0; i < program.input_roles().size(); ++i)
      if (program.input_roles()[i].role != Input::parameter)
        out.temporaries +=
            aligned(static_cast<std::size_t>(graph.type(graph.inputs()[i].value).bytes()));
  }
  each_output(program, [&](const auto&, const Type& type) {
    out.temporaries += aligned(static_cast<std::size_t>(type.bytes()));
  });
  return out;
}

Teacher::Teacher(TeacherModel teacher, std::int64_t rows, std::int64_t tokens,
                 const decoder::TeacherShape& told, const Backend& backend)
    : teacher_(std::move(teacher)),
      program_(program_of(*teacher_.model, {rows, tokens, teacher_.dtype}, told, backend)),
      arena_(backend.allocate(program_.arena_bytes())) {
  program_.bind_parameters(teacher_.weights);
  each_output(program_, [&](const auto&, const Type& type) {
    outputs_.add(static_cast<std::size_t>(type.bytes()));
  });
  outputs_.allocate(backend);
  std::size_t part = 0;
  each_output(program_, [&](const auto& of, const Type& type) {
    told_.push_back({of.second, outputs_.tensor(part++, type)});
    program_.bind(of.first, told_.back().second);
  });
}

void Teacher::run(const program::Microbatch& batch) {
  batch.bind(program_);
  program_.run(*arena_);
}

void Teacher::bind(program::BoundProgram& step) {
  for (const auto& [input, tensor] : told_) step.bind(input, ConstTensorRef(tensor));
}

}  // namespace lamina::train
