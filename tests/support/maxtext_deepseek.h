// Golden cases of MaxText's deepseek block: most of their keys are those of a published model.
#pragma once

#include "core/json.h"
#include "support/maxtext_config.h"

namespace lamina::testing {

// `overrides`: config.json of the case. `resolved`: every key that differs from base.yml.
MaxTextConfig deepseek_config(JsonValue overrides, JsonValue resolved);

}  // namespace lamina::testing
