// The data of a Model, for the files that build its graphs. Private to decoder.
#pragma once

#include <memory>
#include <optional>

#include "decoder/engram/engram.h"
#include "decoder/roles/adapter.h"
#include "decoder/roles/block_options.h"
#include "decoder/stack/parameter.h"
#include "decoder/stack/stack_plan.h"
#include "decoder/trace/block_declaration.h"
#include "registry/family.h"

namespace lamina::decoder {

struct ModelParts {
  std::shared_ptr<const registry::Family> family;
  registry::ModelConfig config;
  registry::OptionsSpec options;
  StackOptions stack_options;
  StackPlan stack;
  ParameterTable parameters;
  std::vector<BlockDeclaration> declared;  // by the blocks, which every later trace must repeat
  std::optional<std::int64_t> length_dependent_from;
  bool rotation_changes_once = true;  // see BlockGraph
  // The host's own parameters; -1 for missing ones.
  int embed = -1, positions = -1, norm = -1, norm_bias = -1, head = -1, head_bias = -1;
  std::optional<Engram> engram;
  bool sinusoids = false;  // sinusoidal positions that the host adds beside options.embed.positions
  std::optional<Adapter> adapter = {};
  BlockOptions block_options = {};

  int head_weight() const { return options.head.tied ? embed : head; }
};

// Declares all parameters in the order of the stack, and sets facts about the model that only the
// blocks' graphs have.
void declare_parameters(ModelParts& parts);

}  // namespace lamina::decoder
