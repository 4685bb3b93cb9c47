// The second model of a run file, which the first one learns from: [distillation].
#pragma once

#include <memory>
#include <optional>

#include "config/run_config.h"
#include "decoder/model.h"
#include "registry/discovery.h"
#include "runtime/backend.h"
#include "text/tokenizer.h"
#include "train/tasks/teacher.h"

namespace lamina::model {

// As its directory describes it, to be planned with; null where a run has none. Errors: those of
// open(); exit 4 where nothing is at distillation.teacher; exit 2 where its vocabulary is not that
// of `student`, its positions are too few for data.sequence_length, or layers cannot be compared.
std::unique_ptr<decoder::Model> describe_teacher(const config::RunConfig& run,
                                                 const registry::Catalog& plugins,
                                                 const decoder::Model& student);

// With its weights. Errors: also those of load(); exit 2 where its tokenizer gives tokens other ids
// than `tokenizer`, the student's.
std::optional<train::TeacherModel> open_teacher(const config::RunConfig& run,
                                                const registry::Catalog& plugins,
                                                const decoder::Model& student,
                                                const text::Tokenizer& tokenizer,
                                                const Backend& backend);

}  // namespace lamina::model
