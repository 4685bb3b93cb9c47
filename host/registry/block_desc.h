// The declarations that a block makes while it is built: parameters, decode state, auxiliary values
// and updates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/decode_form.h"

namespace lamina::registry {

// The purpose of a parameter (LAMINA_ROLE_*).
enum class Role { weight = 1, bias, norm, embedding, head, router, scalar, conv };

// Initialisation of a parameter (LAMINA_INIT_*), with up to two numbers.
struct InitSpec {
  enum class Kind {
    zeros,
    ones,
    constant,          // a
    normal,            // deviation a
    truncated_normal,  // deviation a, truncated at 2 a
    uniform,           // between a and b
    log_uniform,       // log of a draw between a and b
    fan_in,            // normal, deviation a / sqrt(last dim)
    cycle,             // element i is i modulo a
  };
  Kind kind = Kind::zeros;
  double a = 0, b = 0;
  friend bool operator==(const InitSpec&, const InitSpec&) = default;
};

struct ParamDesc {
  std::string name;  // full inside the block: "attention.wq.weight"
  Shape shape;
  std::vector<AxisId> axes;  // one per dim
  Role role = Role::weight;
  InitSpec init;
  bool trained = true;
  std::optional<bool> decay;   // weight decay; absent: by role
  std::optional<DType> dtype;  // absent: the run's
  std::string group;           // for learning rates and masks; may be empty
  bool unshared = false;       // each layer has its own, whatever the plan shares
  bool quantize = true;        // false: its matrix stays plain unless a rule names it
  // For parameters that the host adds to a plugin's block: the plugin's parameter whose module is
  // beside it, or whose module's name it extends ("wi_1" extends "wi"). Published names follow it.
  std::string beside = {};
  friend bool operator==(const ParamDesc&, const ParamDesc&) = default;
};

// State of a block between decoded tokens.
using ops::StateDesc;
using ops::StateKind;

enum class InputKind {
  positions = 1,
  token_ids,
  segment_ids,
  layer_index,
  embedding,
  positions_3d,
  image_blocks
};

struct AuxDesc {
  enum class Kind { loss = 1, metric };
  enum class Reduce { sum, mean, max };
  Kind kind = Kind::loss;
  std::string name;
  Tensor value;
  std::string weight_key;  // config key that multiplies a loss; empty = 1
  Reduce reduce = Reduce::sum;
  Tensor other;  // for a loss that is a product of means over layers; null = none
};

struct UpdateDesc {
  enum class Rule { add = 1, sign_step, assign };
  Rule rule = Rule::add;
  std::string param;  // full name of a parameter of the block
  Tensor value;
  std::string rate_key;  // config key; empty = 1
};

// Returns the tag under which a block's graph keeps the value of the exported parameter `param`.
std::string export_tag(std::string_view param);

}  // namespace lamina::registry
