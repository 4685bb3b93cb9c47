// Frequencies of rotary position embeddings.
#include "ops/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "ops/op.h"

namespace lamina::ops {
namespace {

constexpr double kTwoPi = 6.283185307179586477;

[[noreturn]] void refuse(const std::string& what) {
  throw UserError(ExitCode::usage, {"rope_scaling", what, {}});
}

void require_positive(const char* key, double value) {
  if (!(value > 0) || !std::isfinite(value))
    refuse(fmt::format("{} must be a number above 0, got {}", key, value));
}

// theta^(2i / dim) in f32, as a tensor of exponents in f32 gives it.
std::vector<float> wave_numbers(double theta, std::int64_t dim) {
  std::vector<float> waves;
  for (std::int64_t i = 0; i < dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(dim);
    waves.push_back(static_cast<float>(
        std::pow(static_cast<double>(static_cast<float>(theta)), static_cast<double>(exponent))));
  }
  return waves;
}

std::vector<float> inverses(const std::vector<float>& waves) {
  std::vector<float> inv_freq;
  for (float wave : waves) inv_freq.push_back(1.0f / wave);
  return inv_freq;
}

double dynamic_theta(const RopeSpec& s, std::int64_t num_tokens) {
  const double longest = static_cast<double>(std::max(num_tokens, s.max_position_embeddings));
  const double dim = static_cast<double>(s.rotary_dim);
  if (s.rotary_dim == 2) return s.theta;  // the one frequency is 1 for every base
  return s.theta * std::pow(s.factor * longest / static_cast<double>(s.max_position_embeddings) -
                                (s.factor - 1),
                            dim / (dim - 2));
}

std::vector<float> by_wavelength(const RopeSpec& s) {
  std::vector<float> inv_freq = inverses(wave_numbers(s.theta, s.rotary_dim));
  const double original = static_cast<double>(s.original_max_position_embeddings);
  const float factor = static_cast<float>(s.factor);
  const float low = static_cast<float>(s.low_freq_factor);
  const float band = static_cast<float>(s.high_freq_factor - s.low_freq_factor);
  for (float& f : inv_freq) {
    const float wavelength = static_cast<float>(kTwoPi) / f;
    if (static_cast<double>(wavelength) < original / s.high_freq_factor) continue;
    if (static_cast<double>(wavelength) > original / s.low_freq_factor || band == 0.0f) {
      f = static_cast<double>(wavelength) > original / s.low_freq_factor ? f / factor : f;
      continue;
    }
    const float smooth = (static_cast<float>(original) / wavelength - low) / band;
    f = (1.0f - smooth) * f / factor + smooth * f;
  }
  return inv_freq;
}

// The dim whose wave makes `rotations` rotations within the original length.
double correction_dim(const RopeSpec& s, double rotations) {
  const double original = static_cast<double>(s.original_max_position_embeddings);
  return static_cast<double>(s.rotary_dim) * std::log(original / (rotations * kTwoPi)) /
         (2 * std::log(s.theta));
}

std::vector<float> yarn(const RopeSpec& s) {
  double low = correction_dim(s, s.beta_fast);
  double high = correction_dim(s, s.beta_slow);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(s.rotary_dim - 1));
  if (low == high) high += 0.001;
  const std::vector<float> waves = wave_numbers(s.theta, s.rotary_dim);
  std::vector<float> inv_freq;
  for (std::size_t i = 0; i < waves.size(); ++i) {
    const float ramp = std::clamp(
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f,
        1.0f);
    const float kept = 1.0f - ramp;
    const float extrapolated = 1.0f / waves[i];
    const float interpolated = 1.0f / (static_cast<float>(s.factor) * waves[i]);
    inv_freq.push_back(interpolated * (1.0f - kept) + extrapolated * kept);
  }
  return inv_freq;
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double yarn_attention_factor(const RopeSpec& s) {
  if (s.attention_factor) return *s.attention_factor;
  if (s.mscale.value_or(0) != 0 && s.mscale_all_dim.value_or(0) != 0)
    return yarn_mscale(s.factor, *s.mscale) / yarn_mscale(s.factor, *s.mscale_all_dim);
  return yarn_mscale(s.factor, 1);
}

std::vector<float> longrope(const RopeSpec& s, std::int64_t num_tokens) {
  const bool beyond = num_tokens > s.original_max_position_embeddings;
  const std::vector<double>& divisors = beyond ? s.long_factor : s.short_factor;
  if (static_cast<std::int64_t>(divisors.size()) != s.rotary_dim / 2)
    refuse(fmt::format("{} must have {} numbers, one per frequency; got {}",
                       beyond ? "long_factor" : "short_factor", s.rotary_dim / 2, divisors.size()));
  std::vector<float> waves = wave_numbers(s.theta, s.rotary_dim);
  for (std::size_t i = 0; i < waves.size(); ++i) waves[i] *= static_cast<float>(divisors[i]);
  return inverses(waves);
}

double longrope_attention_factor(const RopeSpec& s) {
  if (s.attention_factor) return *s.attention_factor;
  const double original = static_cast<double>(s.original_max_position_embeddings);
  const double factor = s.factor == 1 && s.max_position_embeddings > 0
                            ? static_cast<double>(s.max_position_embeddings) / original
                            : s.factor;
  return factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original));
}

void check(const RopeSpec& s) {
  if (s.rotary_dim <= 0 || s.rotary_dim % 2 != 0)
    throw UserError(
        ExitCode::usage,
        {"rope", fmt::format("the rotary dim must be even and above 0, got {}", s.rotary_dim), {}});
  if (!(s.theta > 0) || !std::isfinite(s.theta))
    throw UserError(ExitCode::usage,
                    {"rope_theta", fmt::format("must be a number above 0, got {}", s.theta), {}});
  if (s.scaling != RopeScaling::none && s.scaling != RopeScaling::longrope)
    require_positive("factor", s.factor);
  const auto original = static_cast<double>(s.original_max_position_embeddings);
  switch (s.scaling) {
    case RopeScaling::none:
    case RopeScaling::linear:
      break;
    case RopeScaling::dynamic:
      require_positive("max_position_embeddings", static_cast<double>(s.max_position_embeddings));
      break;
    case RopeScaling::by_wavelength:
      require_positive("original_max_position_embeddings", original);
      require_positive("low_freq_factor", s.low_freq_factor);
      require_positive("high_freq_factor", s.high_freq_factor);
      break;
    case RopeScaling::yarn:
      require_positive("original_max_position_embeddings", original);
      require_positive("beta_fast", s.beta_fast);
      require_positive("beta_slow", s.beta_slow);
      if (s.theta == 1) refuse("yarn needs a rope_theta other than 1");
      break;
    case RopeScaling::longrope:
      require_positive("original_max_position_embeddings", original);
      break;
  }
}

RopeScaling scaling_of(const std::string& name) {
  if (name == "linear") return RopeScaling::linear;
  if (name == "dynamic") return RopeScaling::dynamic;
  if (name == "llama3") return RopeScaling::by_wavelength;
  if (name == "yarn") return RopeScaling::yarn;
  if (name == "longrope") return RopeScaling::longrope;
  return RopeScaling::none;
}

// Returns the value; 0 means absent.
std::optional<double> optional_attr(double value) {
  return value == 0 ? std::nullopt : std::optional(value);
}

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

}  // namespace

void require_rope_attrs(const Call& c, const Type& p, std::int64_t rotary) {
  const auto require_positive_attr = [&](const char* attr) {
    c.require(std::isfinite(c.f(attr)) && c.f(attr) > 0, "{} must be a positive number, got {}",
              attr, c.f(attr));
  };
  c.require(c.i("frequency_dim") >= 0 && c.i("frequency_dim") % 2 == 0,
            "frequency_dim must be even and positive, or 0, got {}", c.i("frequency_dim"));
  require_positive_attr("theta");
  require_positive_attr("factor");
  const std::string& scaling = c.s("scaling");
  constexpr std::string_view kScalings[] = {"none", "linear",  "llama3",
                                            "yarn", "dynamic", "longrope"};
  c.require(std::ranges::find(kScalings, scaling) != std::end(kScalings),
            "scaling must be one of {}, got '{}'", fmt::join(kScalings, ", "), scaling);
  if (scaling == "llama3")
    for (const char* attr : {"low_freq_factor", "high_freq_factor"}) require_positive_attr(attr);
  if (scaling == "yarn")
    for (const char* attr : {"beta_fast", "beta_slow"}) require_positive_attr(attr);
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
}

RopeFrequencies rope_frequencies(const RopeSpec& s, std::int64_t num_tokens) {
  check(s);
  RopeFrequencies result = {{}, 1.0f};
  switch (s.scaling) {
    case RopeScaling::none:
      result.inv_freq = inverses(wave_numbers(s.theta, s.rotary_dim));
      break;
    case RopeScaling::linear:
      result.inv_freq = inverses(wave_numbers(s.theta, s.rotary_dim));
      for (float& f : result.inv_freq) f /= static_cast<float>(s.factor);
      break;
    case RopeScaling::dynamic:
      result.inv_freq = inverses(wave_numbers(dynamic_theta(s, num_tokens), s.rotary_dim));
      break;
    case RopeScaling::by_wavelength:
      result.inv_freq = by_wavelength(s);
      break;
    case RopeScaling::yarn:
      result.inv_freq = yarn(s);
      result.attention_factor = static_cast<float>(yarn_attention_factor(s));
      break;
    case RopeScaling::longrope:
      result.inv_freq = longrope(s, num_tokens);
      result.attention_factor = static_cast<float>(longrope_attention_factor(s));
      break;
  }
  if (s.num_rotated)
    for (std::size_t i = 0; i < result.inv_freq.size(); ++i)
      if (static_cast<std::int64_t>(i) >= *s.num_rotated) result.inv_freq[i] = 0.0f;
  return result;
}

RopeSpec rope_spec(const Call& c) {
  RopeSpec spec{.rotary_dim = c.i("frequency_dim") ? c.i("frequency_dim") : c.i("rotary_dim"),
                .theta = c.f("theta"),
                .scaling = scaling_of(c.s("scaling")),
                .factor = c.f("factor")};
  spec.max_position_embeddings = c.i("max_positions");
  spec.original_max_position_embeddings = c.i("original_max_positions");
  spec.low_freq_factor = c.f("low_freq_factor");
  spec.high_freq_factor = c.f("high_freq_factor");
  spec.beta_fast = c.f("beta_fast");
  spec.beta_slow = c.f("beta_slow");
  spec.truncate = c.i("truncate") != 0;
  spec.attention_factor = optional_attr(c.f("attention_factor"));
  spec.mscale = optional_attr(c.f("mscale"));
  spec.mscale_all_dim = optional_attr(c.f("mscale_all_dim"));
  spec.short_factor = c.f_list("short_factor");
  spec.long_factor = c.f_list("long_factor");
  return spec;
}

RopeFrequencies rope_frequencies(const RopeSpec& s, std::int64_t num_tokens,
                                 std::int64_t num_channels) {
  RopeFrequencies out = rope_frequencies(s, num_tokens);
  out.inv_freq.resize(static_cast<std::size_t>(num_channels), 0.0f);
  return out;
}

std::optional<std::int64_t> rope_length_limit(const RopeSpec& spec) {
  if (spec.scaling == RopeScaling::dynamic) return spec.max_position_embeddings;
  if (spec.scaling == RopeScaling::longrope) return spec.original_max_position_embeddings;
  return std::nullopt;
}

std::vector<std::uint8_t> rope_axes(const Call& c) {
  if (c.type(0).ndim() == 2) return {};
  const std::vector<std::int64_t>& section = c.list("mrope_section");
  std::vector<std::uint8_t> out;
  for (std::int64_t i = 0; i < c.i("rotary_dim") / 2; ++i) {
    std::size_t axis = 0;
    if (!c.i("mrope_interleaved"))
      axis = i < section[0] ? 0 : i < section[0] + section[1] ? 1 : 2;
    else if (i < 3 * section[static_cast<std::size_t>(i % 3)])
      axis = static_cast<std::size_t>(i % 3);
    out.push_back(static_cast<std::uint8_t>(axis));
  }
  return out;
}

}  // namespace lamina::ops
