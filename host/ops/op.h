// The header for an op's file: the call contexts, and every op as a function on Tensors.
//
// A file defines one constant `const OpDef <name>_op`; ops/registry.cc joins it with its row of
// ops.def or internal.def. See docs/add_an_op.md.
#pragma once

#include "core/error.h"
#include "graph/call.h"
#include "graph/graph.h"
#include "ops/decode_form.h"
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

// In an op's file, each on one line: the inputs and attributes that the host adds after the
// operands of its row in ops.def, in the same notation; plugins do not see them. The build collects
// them.
#define LAMINA_HOST_INPUTS(op, inputs)
#define LAMINA_HOST_ATTRS(op, attrs)

// Costs of ops that need no function.
inline constexpr OpCost kNoProducts{.none = "has no products"};
inline constexpr OpCost kOfBackwardPass{.none = "counted as twice the products of its forward op"};

// Returns the number of elements as a double, so that products of several cannot overflow.
inline double num_elements(const Type& type) { return static_cast<double>(type.num_elements()); }

// Returns one letter per dim of input i for split rules: small, but "_" for the dims in `whole`.
std::string dim_letters(const Call& c, int input, std::span<const std::int64_t> whole = {});

// Shape rules shared by families of ops.

// One input of any floating-point dtype; the result has its type.
std::vector<Type> infer_unary(const Call& c);
// The same, and integers.
std::vector<Type> infer_number(const Call& c);
// Returns true for the dtypes that reductions take: the floating-point ones, i32 and i64.
bool is_reducible(DType dtype);
// Refuses the call unless the dtype of the input is one of these.
void require_reducible(const Call& c, int input);
// All inputs of one dtype, broadcast against each other (trailing dims aligned).
std::vector<Type> infer_broadcast(const Call& c);
// The same for numbers, not booleans.
std::vector<Type> infer_arithmetic(const Call& c);
// The same for i32 and i64.
std::vector<Type> infer_integers(const Call& c);
// Returns the shape that `a` and `b` broadcast to; refuses the call if they do not.
Shape broadcast_shape(const Call& c, const Shape& a, const Shape& b);
// Returns `dim`, counted from the end if negative; refuses the call if it is outside [-ndim, ndim).
int checked_dim(const Call& c, std::int64_t dim, int ndim);
// Refuses the call if `value`, of the attribute `attr`, is no number of `dtype`, an integer type:
// too large, or a fraction. Other types accept any value.
void require_fits(const Call& c, std::string_view attr, double value, DType dtype);
// Returns the attribute as a shape; refuses the call if it has too many dims or a negative one.
Shape checked_shape(const Call& c, std::string_view attr);
// Return a + b and a * b for non-negative sizes; refuse the call if they exceed 2^63 - 1.
std::int64_t checked_sum(const Call& c, std::int64_t a, std::int64_t b);
std::int64_t checked_product(const Call& c, std::int64_t a, std::int64_t b);

}  // namespace lamina::ops
