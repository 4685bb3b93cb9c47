// Warnings about settings that are probably mistakes.
#pragma once

#include "config/run_config.h"
#include "decoder/model.h"

namespace lamina::cli {

// Logs them, for a run that starts or is planned.
void warn_of_settings(const decoder::Model& model, const config::RunConfig& run);

}  // namespace lamina::cli
