// An op is data: a row of ops.def or internal.def joined with the constant of the op's file.
//
// Contains the facts about ops that graphs need; the files of ops include ops/op.h.
#pragma once

#include <array>
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

// Equality of meaning: bodies are compared by structure, floating-point numbers by their bits, as 0
// and -0 differ, other values by value.
bool same_attr(const AttrValue& a, const AttrValue& b);

struct OpInput {
  std::string name;
  bool optional = false;
  bool variadic = false;    // only the last input that plugins can give
  std::uint32_t since = 0;  // LAMINA_ABI_MINOR that introduced it
};

struct OpAttr {
  std::string name;
  AttrValue fallback;  // its alternative is the attribute's kind
  bool required = false;
  bool is_flag = false;  // an integer that is 0 or 1
  std::uint32_t since = 0;
};

// Results [0, num_results) of an op that the node of another op also computes.
struct Byproducts {
  OpCode op{};
  std::uint32_t num_results = 0;
};

// Context on which the work of a node depends, besides its types and attributes.
struct WorkContext {
  std::int64_t start = 0;  // tokens in the decode state before the call; 0 without one
  // One entry for each input: the maximum number of keys that it leaves to a query; 0 = any number.
  std::span<const std::int64_t> keys_kept;
};

// Minimum work of an op: the numerators of limits, for `plan` and `bench`.
struct OpCost {
  // Floating-point operations of its products, where a multiplication and an addition count as two;
  // other operations are not counted. Null if `none` gives the reason why there are none.
  double (*flops)(const NodeView&, const WorkContext&) = nullptr;
  std::string_view none = {};
  // Share of an input that must be read, 0 to 1 (more if parts are read twice); null: all of it.
  double (*share_read)(const NodeView&, int input) = nullptr;
  // For an op that computes a mask: the maximum number of keys that it leaves to a query.
  std::int64_t (*keys_kept)(const NodeView&) = nullptr;
};

// How the dims of an op's operands may be split over devices. The rule names every dim of every
// operand as einsum does: "...i, oi, o?! -> ...o+i" (a product with weights and bias).
//   - A dim with a small letter may be split, at all operands with this letter together, into a
//     number of parts that divides all their sizes. (Query heads and key/value heads share a
//     letter: a part has the query heads of its key/value heads.) Outputs with the letter are then
//     computed in parts, all others are equal in all parts.
//   - "+i" after an output: it is a sum over i; the results of the parts are added.
//   - A dim with a capital letter or "_" must be whole.
//   - "..." is any number of dims that may all be split; "___" any number that must be whole.
//   - "()" is an operand without dims. "?" after an operand: it may be absent. "!": it is added to
//     a sum, so only one part has it.
// See ops/split.h.
struct OpSplit {
  std::string_view rule = {};
  std::string (*rule_of)(const Call&) = nullptr;  // if it depends on attributes or types
  std::string_view none = {};                     // the reason if operands must be whole
};

// A parameter that an op reads: the matrix of a product, the gain of a norm, a table of rows, or
// the taps of a convolution.
enum class ParamUse : std::uint8_t { none, matrix, gain, table, taps };
struct ParamOperand {
  std::string_view input = {};
  ParamUse use = ParamUse::none;
};

// Products of two operands, inputs 0 and 1: of any two tensors, of rows with one matrix [O, I] or
// with the matrix of their group [E, O, I], and of rows with the head inside a loss.
enum class Product : std::uint8_t { none, tensors, rows, grouped_rows, loss };

// Attention: of queries to keys and values of heads or to latents; or a mask that is made of
// queries and keys of heads.
enum class Attends : std::uint8_t { no, to_heads, to_latents, masks_heads };

// Ops between the matrix of queries, keys or values and attention: those that put the elements of
// its product into heads, and those that change the elements of a head.
enum class OnHeads : std::uint8_t { none, shapes, changes };

// Facts by which passes, rewrites and checks recognise ops: they ask for these, never for one op by
// its name or code.
struct OpFacts {
  Product product = Product::none;
  Attends attends = Attends::no;
  OnHeads on_heads = OnHeads::none;
  // Parameters among the operands, by the names of inputs.
  std::array<ParamOperand, 2> params = {};
  // Runs its body several times, with carries and elements of its operands (scan).
  bool loops = false;
  // The sum of its two operands.
  bool adds = false;
  // Output 0 is added to the input `acc` where there is one.
  bool accumulates = false;
  // Elements of the operands at other places, in another type, or without a gradient.
  bool moves_data = false;
  // Row i of the output is made of row i of each operand, as rows of a matrix product are of rows
  // of the matrix.
  bool carries_rows = false;
  bool is_norm = false;
  bool rotates = false;        // by the position of a token
  bool is_activation = false;  // of one operand, as feed-forwards have them
  bool gates = false;          // an activation of input 0 times input 1
  bool draws = false;          // random numbers: the host adds the seed
  bool chooses = false;        // the largest elements and their places
  // The input that decides which others are read, and gets no gradient.
  std::string_view chooses_by = {};
  // Attributes that are sizes, or places counted in tokens.
  std::array<std::string_view, 2> size_attrs = {};
  // The tag of the last output, where a plugin gives it none.
  std::string_view last_output_tag = {};
};

// Facts about an op, a constant in its file. See docs/add_an_op.md.
struct OpDef {
  // Decides shapes, dtypes and user mistakes, in this one place: returns the types of all outputs.
  std::vector<Type> (*infer)(const Call&) = nullptr;
  // The op in terms of smaller ops: fallback, test reference, and the definition that autodiff
  // differentiates if there is no vjp. Null for primitives.
  std::vector<Tensor> (*lower)(const LowerCall&) = nullptr;
  // Returns cotangents of the inputs as graph code, one per input; a null Tensor if there is none.
  std::vector<Tensor> (*vjp)(const VjpCall&) = nullptr;
  // Each output element depends only on the input elements at its (broadcast) position.
  bool elementwise = false;
  // Returns the offset in input 0, in elements, of the output's consecutive elements if the op only
  // points there (reshape, a slice of whole leading rows); nothing if elements must move.
  std::optional<std::int64_t> (*view)(const Call&) = nullptr;
  // Elements are moved, dropped or summed, never combined with others: the vjp accepts a cotangent
  // in f32 for a value in bf16 unchanged.
  bool layout_only = false;
  // Outputs [0, in_place) are written over inputs [0, in_place).
  int in_place = 0;
  // Replaced by its smaller ops as soon as a graph is traced: syntactic sugar.
  bool always_lower = false;
  // No gradient flows through it: vjp and lower are never called.
  bool zero_gradient = false;
  // The op of the node that vjp adds for the same inputs and attributes, if its first results equal
  // this op's first results: if both are needed, autodiff uses the gradient node's.
  Byproducts from_gradient;
  // Its state of earlier tokens and how it continues from that (ops/decode.h), or the reason why it
  // has none. Null for elementwise ops, which treat each token separately.
  const ops::DecodeForm* decode = nullptr;
  // Empty for elementwise ops, which have no products.
  OpCost cost = {};
  // Empty for elementwise ops, whose rule is broadcasting.
  OpSplit split = {};
  // Determines which tokens its outputs belong to (ops/token_flow.h), if `split` is not sufficient.
  void (*tokens)(ops::TokenFlow&) = nullptr;
  // Output 0 is [rows, D], where row i is the sum of the rows of input 1 whose element of input 0
  // is i: a gradient that training may keep as a list of rows.
  bool sums_rows = false;
  // Returns whether the kernels of the op read the input if it is stored in blocks (Type::storage);
  // null: no input. Other inputs must be plain.
  bool (*takes_stored)(const Call&, int input) = nullptr;
  OpFacts facts = {};
};

// A row of ops.def or internal.def, parsed.
struct Op {
  OpCode code{};
  std::uint32_t id = 0;  // 0: internal to the host, plugins cannot emit it
  std::uint32_t revision = 0;
  std::uint32_t since = 0;  // LAMINA_ABI_MINOR that introduced it
  std::string name;
  std::vector<OpInput> inputs;
  std::vector<OpInput> outputs;
  std::vector<OpAttr> attrs;
  std::string doc;
  // Number of operands and attributes in its row; the host adds the rest (LAMINA_HOST_INPUTS).
  std::size_t num_plugin_inputs = 0, num_plugin_attrs = 0;
  const OpDef* def = nullptr;

  bool host_only() const { return id == 0; }
  // Returns the position of an attribute, or -1.
  int attr_index(std::string_view attr) const;
};

}  // namespace lamina
