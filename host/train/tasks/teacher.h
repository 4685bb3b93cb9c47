// The second model of distillation: it reads the batches of the step and predicts their tokens. On
// several devices each has the teacher's weights, and runs it for its own microbatches.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "decoder/model.h"
#include "program/bound_program.h"
#include "program/microbatch.h"
#include "runtime/backend.h"
#include "runtime/buffer_parts.h"

namespace lamina::train {

// A model with its weights on one device, one tensor per parameter in the type
// Parameter::used_dtype(dtype). The weights live as long as `model`, which may own them.
struct TeacherModel {
  std::shared_ptr<const decoder::Model> model;
  std::vector<ConstTensorRef> weights;
  DType dtype = DType::bf16;  // to compute in
};

// Memory that a teacher takes while a run trains.
struct TeacherBytes {
  std::size_t weights = 0;      // mapped from its files, or copies
  std::size_t temporaries = 0;  // including its outputs for a microbatch
  std::size_t total() const { return weights + temporaries; }
};

TeacherBytes teacher_bytes(const decoder::Model& model, const decoder::GraphShape& shape,
                           const decoder::TeacherShape& told, const Backend& backend);

class Teacher {
 public:
  // For microbatches of `rows` rows of `tokens` tokens.
  Teacher(TeacherModel teacher, std::int64_t rows, std::int64_t tokens,
          const decoder::TeacherShape& told, const Backend& backend);

  void run(const program::Microbatch& batch);
  // Binds the outputs of the last run as inputs of `step`.
  void bind(program::BoundProgram& step);

  std::size_t temporary_bytes() const { return arena_->bytes() + outputs_.bytes(); }

 private:
  TeacherModel teacher_;
  program::BoundProgram program_;
  std::unique_ptr<Buffer> arena_;
  BufferParts outputs_;                                     // in the memory of the device
  std::vector<std::pair<decoder::Input, TensorRef>> told_;  // inputs of a step, in outputs_
};

}  // namespace lamina::train
