// PEFT's names for the tensors and modules of an adapter. They depend on the class of transformers
// in which the base is published.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decoder/model.h"
#include "weights/publish/peft_config.h"
#include "weights/publish/published_form.h"

namespace lamina::weights {

class AdapterNames {
 public:
  // `form`: the published form of the base; null: the class of the family.
  AdapterNames(const decoder::Model& model, const PublishedForm* form);

  // Returns PEFT's name for a tensor of the adapter; `name` is from published_tensors().
  std::string published(std::string_view name) const;

  // Returns `config` for PEFT: its targets are the modules of the model's adapter, by the last
  // parts of their names if these match only those modules, else by a pattern; experts are
  // described so that PEFT computes the same numbers. REQUIRES: the model has the adapter that
  // `config` describes.
  PeftConfig for_peft(const decoder::Model& model, const PeftConfig& config) const;

 private:
  void name_targets(const decoder::Model& model, PeftConfig& config) const;
  std::string pattern_of(const std::vector<std::string>& modules,
                         const std::vector<std::string>& others) const;

  std::string ours_, theirs_;  // prefix of the layers: in the family's map, in the class
  bool wrapped_;               // a part of a larger model, whose modules may have the same names
};

// Returns the path in its layer of a module with an adapter that is not in an expert but has the
// name of experts' modules: PEFT 0.21 with transformers 5 applies that name to experts only, in
// classes that are published with experts one by one, even if all layers are dense. Returns "" if
// there is none.
std::string module_named_as_experts(const decoder::Model& model);

// A module with an adapter that the base does not have in transformers, which has the parts as
// modules.
struct MissingModule {
  std::string name;                // "qkv_proj"
  std::vector<std::string> parts;  // "q_proj", "k_proj", "v_proj"
};
// Returns the first one; its name is for a base that is published as in `form`, null: in the
// family's form. The files of the base do not matter: transformers has the same modules for fused
// ones.
std::optional<MissingModule> module_missing_in_base(const decoder::Model& model,
                                                    const PublishedForm* form);

// Returns the module of an adapter's tensor, without PEFT's prefix; "" for other names.
std::string module_of_adapter_tensor(std::string_view name);

}  // namespace lamina::weights
