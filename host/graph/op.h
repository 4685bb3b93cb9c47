// An op is data: a row of ops.def or internal.def joined with the constant of the op's file.
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
class NodeView;
class LowerCall;
class VjpCall;
struct Tensor;
namespace ops {
struct DecodeForm;
struct TokenFlow;
}  // namespace ops

// One constant per op, of the same name: ops/op_code.h.
enum class OpCode : std::uint16_t;

// Attributes are plain values (and bodies), compared by the framework.
using AttrValue = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>,
                               std::vector<double>, std::shared_ptr<const Graph>>;

// Equality of meaning: bodies are compared by structure, other values by value.
bool same_attr(const AttrValue& a, const AttrValue& b);

struct OpInput {
  std::string name;
  bool optional = false;
  bool variadic = false;    // only the last that plugins know
  std::uint32_t since = 0;  // LAMINA_ABI_MINOR that it came with
};

struct OpAttr {
  std::string name;
  AttrValue fallback;  // its alternative is the attribute's kind
  bool required = false;
  bool is_flag = false;  // a whole number that is 0 or 1
  std::uint32_t since = 0;
};

// Results [0, num_results) of an op, which the node of another op also makes.
struct Byproducts {
  OpCode op{};
  std::uint32_t num_results = 0;
};

// What the work of a node depends on besides its types and attributes.
struct WorkContext {
  std::int64_t start = 0;  // tokens in the decode state before the call; 0 without one
  // For each input, how many keys a query may use at most by it; 0 = any number.
  std::span<const std::int64_t> keys_kept = {};
};

// What an op must do at least: the numerators of limits, of `plan` and `bench`.
struct OpCost {
  // Floating point operations of its products, a multiplication and an addition each; nothing else
  // counts. Null where `none` says why there are none.
  double (*flops)(const NodeView&, const WorkContext&) = nullptr;
  std::string_view none = {};
  // How much of an input must be read, 0 to 1 (more where parts are read twice); null: all of it.
  double (*share_read)(const NodeView&, int input) = nullptr;
  // Of an op that makes a mask: how many keys it leaves to a query at most.
  std::int64_t (*keys_kept)(const NodeView&) = nullptr;
};

// How the dims of an op's operands may be split over devices. The rule names every dim of every
// operand as einsum does: "...i, oi, o?! -> ...o+i" (a product with weights and bias).
//   - A dim with a small letter may be split, at all operands that have the letter alike, into as
//     many parts as divide each of their sizes. (Query heads and key/value heads have one letter:
//     a part has the query heads of its key/value heads.) An output that has the letter is then
//     made in parts, any other is the same for all parts.
//   - "+i" after an output: it is a sum over i; the results of the parts are added up.
//   - A capital letter must be whole, and so must "_".
//   - "..." are any number of dims that may all be split; "___" any number that must be whole.
//   - "()" is an operand without dims. "?" after an operand: it may be absent. "!": it is added to
//     a sum, so one part has it and the others do not.
// See ops/split.h.
struct OpSplit {
  std::string_view rule = {};
  std::string (*rule_of)(const Call&) = nullptr;  // where it depends on attributes or types
  std::string_view none = {};                     // why operands must be whole
};

// All that the host knows of an op, a constant in its file. See docs/add_an_op.md.
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
  // What it remembers of earlier tokens and how it goes on from that (ops/decode.h), or why it need
  // not. Null for elementwise ops, which treat each token by itself.
  const ops::DecodeForm* decode = nullptr;
  // Empty for elementwise ops, which have no products.
  OpCost cost = {};
  // Empty for elementwise ops, whose rule is broadcasting.
  OpSplit split = {};
  // Which tokens its outputs are of (ops/token_flow.h), where `split` does not tell.
  void (*tokens)(ops::TokenFlow&) = nullptr;
  // Output 0 is [rows, D], where row i is the sum of those rows of input 1 whose element of input 0
  // is i: a gradient that training may keep as a list of rows instead.
  bool sums_rows = false;
};

// A row of ops.def or internal.def, parsed.
struct Op {
  OpCode code{};
  std::uint32_t id = 0;  // 0: the host's own, which plugins cannot emit
  std::uint32_t revision = 0;
  std::uint32_t since = 0;  // LAMINA_ABI_MINOR that it came with
  std::string name;
  std::vector<OpInput> inputs;
  std::vector<OpInput> outputs;
  std::vector<OpAttr> attrs;
  std::string doc;
  // The first so many are of its row; those after them the host adds (LAMINA_HOST_INPUTS).
  std::size_t num_plugin_inputs = 0, num_plugin_attrs = 0;
  const OpDef* def = nullptr;

  bool host_only() const { return id == 0; }
  // Position of an attribute, or -1.
  int attr_index(std::string_view attr) const;
};

}  // namespace lamina
