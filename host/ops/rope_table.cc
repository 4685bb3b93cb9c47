// rope_table(positions; ...): cosines, then sines, of the rotation angles position * frequency:
// f32[2, B, T, rotary_dim / 2]. Frequencies: Su et al. 2021, equation 15, changed as
// scaling says. With scaling dynamic the base of a row depends on its largest position.
#include <algorithm>

#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require_dtype(0, DType::i32);
  c.require_ndim(0, 2);
  std::int64_t rotary = c.i("rotary_dim");
  c.require(rotary > 0 && rotary % 2 == 0, "rotary_dim must be even and positive, got {}", rotary);
  c.require(c.f("theta") > 0, "theta must be positive, got {}", c.f("theta"));
  const std::string& scaling = c.s("scaling");
  constexpr std::string_view kScalings[] = {"none", "linear", "llama3", "yarn", "dynamic"};
  c.require(std::ranges::find(kScalings, scaling) != std::end(kScalings),
            "scaling must be one of {}, got '{}'", fmt::join(kScalings, ", "), scaling);
  c.require(c.f("factor") > 0, "factor must be positive, got {}", c.f("factor"));
  c.require((scaling != "yarn" && scaling != "llama3") || c.i("original_max_positions") > 0,
            "scaling {} needs original_max_positions", scaling);
  c.require(scaling != "dynamic" || c.i("max_positions") > 0,
            "scaling dynamic needs max_positions");
  const Type& p = c.type(0);
  return {{DType::f32, {2, p.dim(0), p.dim(1), rotary / 2}, {}}};
}

}  // namespace

constinit const OpDef rope_table_op = {.infer = infer, .zero_gradient = true};

}  // namespace lamina::ops
