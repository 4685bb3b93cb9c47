// What an op's file includes: the call contexts, and every op as a function on Tensors.
//
// A file defines one constant `const OpDef <name>_op`; ops/registry.cc joins it with its row of
// ops.def or internal.def. See docs/add_an_op.md.
#pragma once

#include "core/error.h"
#include "graph/call.h"
#include "graph/graph.h"
#include "ops/decode.h"
#include "ops/op_code.h"
#include "ops/operands.h"
#include "ops/tensor.h"
#include "ops/token_flow.h"

namespace lamina::ops {

// Each op's file defines its constant.
#define LAMINA_OP(id, name, ...) extern const OpDef name##_op;
#include "lamina/ops.def"
#define LAMINA_INTERNAL_OP(name, ...) extern const OpDef name##_op;
#include "ops/internal.def"

// In an op's file, each on one line: the inputs and attributes that follow those of its row in
// ops.def, in the same notation, which the host gives and plugins do not see. The build collects
// them.
#define LAMINA_HOST_INPUTS(op, inputs)
#define LAMINA_HOST_ATTRS(op, attrs)

// Costs of ops that need no function of their own.
inline constexpr OpCost kNoProducts{.none = "has no products"};
inline constexpr OpCost kOfBackwardPass{.none = "counted as twice the products of its forward op"};

// A type's elements as a number that products of several cannot overflow.
inline double num_elements(const Type& type) { return static_cast<double>(type.num_elements()); }

// One letter per dim of input i, for split rules: small, but "_" for the dims named in `whole`.
std::string dim_letters(const Call& c, int input, std::span<const std::int64_t> whole = {});

// Shape rules shared by families of ops.

// One input, any floating dtype; the result has its type.
std::vector<Type> infer_unary(const Call& c);
// Likewise for integers too.
std::vector<Type> infer_number(const Call& c);
// All inputs of one dtype, broadcast against each other (trailing dims aligned).
std::vector<Type> infer_broadcast(const Call& c);
// Likewise for numbers, not truth values.
std::vector<Type> infer_arithmetic(const Call& c);
// Likewise for i32 and i64.
std::vector<Type> infer_integers(const Call& c);
// The shape that `a` and `b` broadcast to; refuses the call when they do not.
Shape broadcast_shape(const Call& c, const Shape& a, const Shape& b);
// `dim` counted from the end when negative; refuses the call when outside [-ndim, ndim).
int checked_dim(const Call& c, std::int64_t dim, int ndim);
// Refuses the call when `value`, of the attribute `attr`, does not fit into `dtype`, an integer
// type. Any value does for other types.
void require_fits(const Call& c, std::string_view attr, double value, DType dtype);
// The attribute as a shape; refuses the call when it has too many dims or a negative one.
Shape checked_shape(const Call& c, std::string_view attr);
// a + b and a * b of sizes that are not negative; refuses the call when they pass 2^63 - 1.
std::int64_t checked_sum(const Call& c, std::int64_t a, std::int64_t b);
std::int64_t checked_product(const Call& c, std::int64_t a, std::int64_t b);

}  // namespace lamina::ops
