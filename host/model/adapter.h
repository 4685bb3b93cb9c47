// Which matrices of a model an adapter's configuration means.
#pragma once

#include <string>

#include "decoder/model.h"
#include "weights/publish/peft_config.h"

namespace lamina::model {

// Of `base`, which has none. `where` names the configuration in messages. Errors (exit 2): a target
// that no matrix of the layers has, with the nearest name; one that is published as a part of
// another tensor, which PEFT's form has no word for.
decoder::Adapter adapter_of(const decoder::Model& base, const weights::PeftConfig& config,
                            const std::string& where);
// The one in `directory`: of the matrices that its tensors are for. Errors: those of
// weights::read_peft_config(); exit 4 where a tensor is for something else than a matrix of the
// layers, where target_modules does not name its module (PEFT would not use it), and where a matrix
// has an adapter in some of its layers or experts only.
decoder::Adapter adapter_of(const decoder::Model& base, const std::string& directory);

}  // namespace lamina::model
