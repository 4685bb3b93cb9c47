// Which matrices of a model an adapter's configuration means.
#pragma once

#include <string>

#include "decoder/model.h"
#include "weights/peft.h"

namespace lamina::model {

// Of `base`, which has none. `where` names the configuration in messages. Errors (exit 2): a target
// that no matrix of the layers has, with the nearest name; one that is published as a part of
// another tensor, which PEFT's form has no word for.
decoder::Adapter adapter_of(const decoder::Model& base, const weights::PeftConfig& config,
                            const std::string& where);
// With the configuration in `directory`. Errors: also those of weights::read_peft_config().
decoder::Adapter adapter_of(const decoder::Model& base, const std::string& directory);

}  // namespace lamina::model
