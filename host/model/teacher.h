// The teacher model of a run file: [distillation].
#pragma once

#include <memory>
#include <vector>

#include "config/run_config.h"
#include "decoder/model.h"
#include "registry/discovery.h"
#include "runtime/backend.h"
#include "text/tokenizer.h"
#include "train/tasks/teacher.h"

namespace lamina::model {

// Returns the teacher as its directory describes it, for planning; null if the run has none.
// Errors: as open(); exit 4 if distillation.teacher does not exist; exit 2 if its vocabulary
// differs from `student`, its positions are too few for data.sequence_length, or layers cannot be
// compared.
std::unique_ptr<decoder::Model> describe_teacher(const config::RunConfig& run,
                                                 const registry::Catalog& plugins,
                                                 const decoder::Model& student);

// Opens the teacher with its weights, once for each backend: all read the same files. Returns
// nothing if the run has no teacher. Errors: also as load(); exit 2 if its tokenizer assigns other
// ids than `tokenizer`, the student's.
std::vector<train::TeacherModel> open_teachers(const config::RunConfig& run,
                                               const registry::Catalog& plugins,
                                               const decoder::Model& student,
                                               const text::Tokenizer& tokenizer,
                                               const std::vector<const Backend*>& backends);

}  // namespace lamina::model
