// An op is data: a row of ops.def joined with the functions of the op's file.
//
// This header is what graphs need to know of ops; ops/op.h is what an op's file includes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/type.h"

namespace lamina {

class Graph;
class Call;
class LowerCall;
class VjpCall;
struct Tensor;

// Attributes are plain values (and bodies), compared by the framework.
using AttrValue = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>,
                               std::vector<double>, std::shared_ptr<const Graph>>;

// Equality of meaning: bodies are compared by structure, other values by value.
bool same_attr(const AttrValue& a, const AttrValue& b);

struct OpInput {
  std::string name;
  bool optional = false;
  bool variadic = false;  // only the last
};

struct OpAttr {
  std::string name;
  AttrValue fallback;  // its alternative is the attribute's kind
  bool required = false;
};

// Results [0, num_results) of an op, which the node of another op also makes.
struct Byproducts {
  std::string_view op;
  std::uint32_t num_results = 0;
};

// The functions of an op, a constant in its file. See docs/add_an_op.md.
struct OpDef {
  // The only place where shapes, dtypes and user mistakes are decided: types of all outputs.
  std::vector<Type> (*infer)(const Call&) = nullptr;
  // What the op means in smaller ops: fallback, test reference, and what autodiff uses when there
  // is no vjp. Null for primitives.
  std::vector<Tensor> (*lower)(const LowerCall&) = nullptr;
  // Cotangents of the inputs as graph code, one per input; a null Tensor where there is none.
  std::vector<Tensor> (*vjp)(const VjpCall&) = nullptr;
  // Each output element depends on the input elements at its (broadcast) place only.
  bool elementwise = false;
  // Where in input 0 the output's elements lie one after the other, in elements, when the op only
  // points there (reshape, a slice of whole leading rows); nothing when elements must move.
  std::optional<std::int64_t> (*view)(const Call&) = nullptr;
  // Elements are moved, dropped or summed, never combined with others: the vjp takes a cotangent
  // in f32 for a value in bf16 as it is.
  bool layout_only = false;
  // Outputs [0, in_place) are written over inputs [0, in_place).
  int in_place = 0;
  // Replaced by its smaller ops as soon as a graph is traced: a spelling, not an operation.
  bool always_lower = false;
  // No gradient flows through: vjp and lower are never asked.
  bool zero_gradient = false;
  // The op of the node that vjp makes of the same inputs and attributes, when that node's first
  // results are this op's first results too: where both are wanted, autodiff takes those.
  Byproducts from_gradient;
};

// A row of ops.def, parsed.
struct Op {
  std::uint32_t id = 0;
  std::uint32_t revision = 0;
  std::string name;
  std::vector<OpInput> inputs;
  std::vector<OpInput> outputs;
  std::vector<OpAttr> attrs;
  std::string doc;
  const OpDef* def = nullptr;

  bool host_only() const { return id >= 1000; }
  // Position of an attribute, or -1.
  int attr_index(std::string_view attr) const;
};

}  // namespace lamina
