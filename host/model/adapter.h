// Finds the matrices of a model that an adapter's configuration selects.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "decoder/model.h"
#include "weights/publish/peft_config.h"

namespace lamina::model {

// Returns the adapter for `base`, which has none. `where` names the configuration in messages.
// Errors (exit 2): a target that matches no matrix of the layers, with the nearest name; one that
// is a part of a module, for which PEFT has no name.
decoder::Adapter adapter_of(const decoder::Model& base, const weights::PeftConfig& config,
                            const std::string& where);
// Returns the adapter in `directory`, for the matrices of its tensors. Errors: as
// weights::read_peft_config(); exit 4 if a tensor does not belong to a matrix of the layers, if
// target_modules does not list its module (PEFT would not use it), or if a matrix has an adapter in
// only some of its layers or experts.
decoder::Adapter adapter_of(const decoder::Model& base, const std::string& directory);

// Returns the model that `make` builds with the adapter in `directory`. Errors: as adapter_of();
// exit 4 with the module if the graphs have no place for its adapter.
using MakeAdapted = std::function<std::unique_ptr<decoder::Model>(const decoder::Adapter&)>;
std::unique_ptr<decoder::Model> make_with_adapter(const decoder::Model& base,
                                                  const std::string& directory,
                                                  const MakeAdapted& make);

}  // namespace lamina::model
