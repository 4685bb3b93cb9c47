// rope_table(positions; ...): cosines, then sines, of the rotation angles position * frequency:
// f32[2, B, T, rotary_dim / 2]. Frequencies: Su et al. 2021, equation 15, modified according to
// scaling. With scaling dynamic the base of a row depends on its largest position; with longrope
// the divisors do: Ding et al. 2024, "LongRoPE". Positions i32[3, B, T] have a row each for time,
// height and width; mrope_section assigns frequencies to them: Wang et al. 2024, "Qwen2-VL".
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/op.h"

namespace lamina::ops {
namespace {

bool depends_on_length(const Call& c) {
  return c.s("scaling") == "dynamic" || c.s("scaling") == "longrope";
}

void require_divisors(const Call& c, std::int64_t frequencies) {
  for (const char* name : {"short_factor", "long_factor"}) {
    const std::vector<double>& divisors = c.f_list(name);
    const auto count = static_cast<std::int64_t>(divisors.size());
    if (c.s("scaling") == "longrope")
      c.require(count == frequencies, "{} must have {} numbers, one per frequency, got {}", name,
                frequencies, count);
    else
      c.require(count == 0, "{} is for scaling longrope, got {} numbers", name, count);
    c.require(std::ranges::all_of(divisors, [](double d) { return std::isfinite(d) && d > 0; }),
              "{} must be positive numbers, got [{}]", name, fmt::join(divisors, ", "));
  }
}

std::vector<Type> infer(const Call& c) {
  c.require_dtype(0, DType::i32);
  const Type& p = c.type(0);
  c.require(p.ndim() == 2 || (p.ndim() == 3 && p.dim(0) == 3),
            "positions must be [B, T] or [3, B, T], got {}", to_string(p));
  std::int64_t rotary = c.i("rotary_dim");
  c.require(rotary > 0 && rotary % 2 == 0, "rotary_dim must be even and positive, got {}", rotary);
  c.require(c.i("frequency_dim") >= 0 && c.i("frequency_dim") % 2 == 0,
            "frequency_dim must be even and positive, or 0, got {}", c.i("frequency_dim"));
  c.require(c.f("theta") > 0, "theta must be positive, got {}", c.f("theta"));
  const std::string& scaling = c.s("scaling");
  constexpr std::string_view kScalings[] = {"none", "linear",  "llama3",
                                            "yarn", "dynamic", "longrope"};
  c.require(std::ranges::find(kScalings, scaling) != std::end(kScalings),
            "scaling must be one of {}, got '{}'", fmt::join(kScalings, ", "), scaling);
  c.require(c.f("factor") > 0, "factor must be positive, got {}", c.f("factor"));
  c.require((scaling != "yarn" && scaling != "llama3" && scaling != "longrope") ||
                c.i("original_max_positions") > 0,
            "scaling {} requires original_max_positions", scaling);
  require_divisors(c, (c.i("frequency_dim") ? c.i("frequency_dim") : rotary) / 2);
  c.require(scaling != "dynamic" || c.i("max_positions") > 0,
            "scaling dynamic requires max_positions");
  const std::vector<std::int64_t>& section = c.list("mrope_section");
  c.require(p.ndim() == 2 || (!section.empty() && !depends_on_length(c)),
            "positions with three rows require mrope_section and cannot be combined with scaling "
            "{}",
            scaling == "longrope" ? "longrope" : "dynamic");
  c.require(section.empty() ||
                (section.size() == 3 && std::ranges::min(section) >= 0 &&
                 std::accumulate(section.begin(), section.end(), std::int64_t{0}) == rotary / 2),
            "mrope_section must be three numbers with the sum {}, half of rotary_dim, got [{}]",
            rotary / 2, fmt::join(section, ", "));
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
