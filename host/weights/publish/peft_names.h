// PEFT's names for the tensors and modules of an adapter. They depend on the class of transformers
// that the base is published as.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "decoder/model.h"
#include "weights/publish/peft_config.h"
#include "weights/publish/published_form.h"

namespace lamina::weights {

class AdapterNames {
 public:
  // `form`: what the base is published as; null: the class of the family.
  AdapterNames(const decoder::Model& model, const PublishedForm* form);

  // A tensor of the adapter as PEFT has it: `name` is of published_tensors().
  std::string published(std::string_view name) const;

  // `config` as PEFT is to read it: its targets are the modules of the model's adapter, by the last
  // parts of their names where these mean the same modules, else by a pattern; of experts, what
  // PEFT gives the same numbers for. REQUIRES: the model has the adapter that `config` describes.
  PeftConfig for_peft(const decoder::Model& model, const PeftConfig& config) const;

 private:
  void name_targets(const decoder::Model& model, PeftConfig& config) const;
  std::string pattern_of(const std::vector<std::string>& modules,
                         const std::vector<std::string>& others) const;

  std::string ours_, theirs_;  // before the layers: in the family's map, in the class
  bool wrapped_;               // beside other parts, whose modules may have the same names
};

// The path in its layer of a module with an adapter that is no expert's and has the name of
// experts' modules: PEFT 0.21 over transformers 5 takes that name for experts alone. "" if there is
// none.
std::string module_named_as_experts(const decoder::Model& model);

// The module of a tensor of an adapter, without PEFT's prefix; "" for other names.
std::string module_of_adapter_tensor(std::string_view name);

}  // namespace lamina::weights
