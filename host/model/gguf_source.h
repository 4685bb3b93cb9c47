// The description of a model in a GGUF file, by the family of its architecture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "io/gguf_model.h"
#include "registry/discovery.h"

namespace lamina::model {

// Form of weights in a GGUF file: as stored, so that they can be used in place, or as published,
// which adapters and trained models require.
enum class WeightForm { stored, published };

// `paired_width` becomes the argument of WeightFiles::unpair_rows(), if the form requires it.
// Errors (exit 4): the file is no model, its family does not read GGUF files, or a key of the file
// is unknown.
config::ModelSource read_gguf_source(const io::GgufModel& file, const registry::Catalog& plugins,
                                     const config::Overrides& overrides, WeightForm form,
                                     std::int64_t& paired_width);

}  // namespace lamina::model
