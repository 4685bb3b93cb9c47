// rope_table(positions; ...): cosines, then sines, of the rotation angles position * frequency:
// f32[2, B, T, rotary_dim / 2]. Frequencies: Su et al. 2021, equation 15, modified according to
// scaling. With scaling dynamic the base of a row depends on its largest position; with longrope
// the divisors do: Ding et al. 2024, "LongRoPE". Positions i32[3, B, T] have a row each for time,
// height and width; mrope_section assigns frequencies to them: Wang et al. 2024, "Qwen2-VL".
#include "ops/op.h"
#include "ops/rope_frequencies.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require_dtype(0, DType::i32);
  const Type& p = c.type(0);
  c.require(p.ndim() == 2 || (p.ndim() == 3 && p.dim(0) == 3),
            "positions must be [B, T] or [3, B, T], got {}", to_string(p));
  std::int64_t rotary = c.i("rotary_dim");
  c.require(rotary > 0 && rotary % 2 == 0, "rotary_dim must be even and positive, got {}", rotary);
  require_rope_attrs(c, p, rotary);
  return {{DType::f32, {2, p.dim(-2), p.dim(-1), rotary / 2}, {}}};
}

// With scaling dynamic and longrope the rotation of a row depends on its largest position.
std::string split_rule(const Call& c) {
  return c.type(0).ndim() == 3 ? "_bT -> _bTF" : "bT -> _bTF";
}

}  // namespace

constinit const OpDef rope_table_op = {.infer = infer,
                                       .zero_gradient = true,
                                       .decode = &kEachToken,
                                       .cost = kNoProducts,
                                       .split = {.rule_of = split_rule}};

}  // namespace lamina::ops
