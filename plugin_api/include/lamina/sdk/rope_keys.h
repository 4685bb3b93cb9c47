// The config keys of rotary positions, in both published layouts: `rope_theta` + `rope_scaling`,
// and `rope_parameters`. If a config.json has both objects, a non-empty `rope_scaling` has
// precedence over `rope_parameters`; a key at the top level counts if the chosen object lacks it.
//
//   rope_keys(key, &Config::rope, {.theta = 1e6});
//   ... rope(q_BTNH, step.positions_BT, rope_options(c.rope, c.head_dim,
//   c.max_position_embeddings))
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "lamina/sdk/layer_ops.h"
#include "lamina/sdk/schema.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// Values of the keys. `type` has config.json's name; rope_options() fills in options.scaling and
// the options that depend on other keys.
struct RopeConfig {
  std::string_view type = "default";
  double partial_rotary_factor = 1;  // fraction of each head that is rotated
  RopeOptions options = {};
};

struct RopeKeys {
  double theta = 10000;
  // The sub-object of rope_parameters with these keys, for families with one sub-object per kind of
  // layer, eg: "full_attention". rope_scaling then changes that kind.
  std::string_view group = {};
  bool flat_too = false;              // rope_parameters without sub-objects is for that group
  std::string_view theta_group = {};  // the sub-object with rope_theta, if it is another
  // Families that rotate a part of each head declare partial_rotary_factor, with this default.
  std::optional<double> partial_rotary_factor = {};
  // Families with positions in three rows declare mrope_section and mrope_interleaved.
  Dims mrope_section = {};
  bool mrope_interleaved = false;
  std::vector<std::string_view> types = {};  // supported values of rope_type; empty = all
  // Tokens of context before stretching, if files do not say; empty = max_position_embeddings. With
  // it exports have the key at the top of config.json.
  std::optional<std::int64_t> original_max_positions = {};
  // Files without rope_scaling and rope_parameters imply a scaling: derive() sets its type, factor,
  // original context and truncate. An object without a type is "default".
  bool scaling_is_derived = false;
  bool attention_factor_is_derived = false;  // derive() sets it for files without it
};

inline constexpr std::string_view kLongRope = "longrope";

inline std::vector<std::string_view> rope_types(const RopeKeys& keys) {
  if (!keys.types.empty()) return keys.types;
  if (!keys.mrope_section.empty()) return {"default", "linear", "llama3", "yarn", "mrope"};
  return {"default", "linear", "dynamic", "llama3", "yarn", kLongRope, "su"};
}

// field: a pointer to the RopeConfig in Config, or a function that returns a reference to it.
template <class Config, class Field>
void rope_keys(Schema<Config>& key, Field field, const RopeKeys& keys = {}) {
  // Returns aliases of a key: rope_parameters.x or rope_parameters.<group>.x.
  auto in_group = [&](std::string_view group, std::string_view name,
                      std::vector<std::string_view> more) {
    if (group.empty() || keys.flat_too)
      more.push_back(key.keep_text("rope_parameters." + std::string(name)));
    if (!group.empty())
      more.push_back(
          key.keep_text("rope_parameters." + std::string(group) + "." + std::string(name)));
    return more;
  };
  auto also = [&](std::string_view name, std::vector<std::string_view> more = {}) {
    return in_group(keys.group, name, std::move(more));
  };
  std::vector<std::string_view> theta_paths;
  if (keys.theta_group.empty())
    theta_paths = also("rope_theta", {"rope_scaling.rope_theta"});
  else
    theta_paths = {
        key.keep_text("rope_parameters." + std::string(keys.theta_group) + ".rope_theta")};
  // Path in exports: in the group's object if there are groups.
  auto path = [&](std::string_view name) -> std::string_view {
    if (keys.group.empty() || keys.flat_too) return {};
    return key.keep_text("rope_parameters." + std::string(keys.group) + "." + std::string(name));
  };
  auto option = [field](auto RopeOptions::*member) {
    return [ field, member ](Config & c) -> auto& { return std::invoke(field, c).options.*member; };
  };
  key("rope_theta", option(&RopeOptions::theta),
      {.fallback = keys.theta,
       .above = 0,
       .aliases = theta_paths,
       .hf_name = path("rope_theta"),
       .doc = "base of the rotary frequencies"});
  key("rope_scaling.rope_type", [field](Config & c) -> auto& { return std::invoke(field, c).type; },
      {.fallback = keys.scaling_is_derived ? std::optional<std::string_view>() : "default",
       .choices = rope_types(keys),
       .aliases = also("type", also("rope_type", {"rope_scaling.type"})),
       .hf_name = path("rope_type"),
       .doc = "how rotary frequencies are stretched for longer contexts"});
  key("rope_scaling.factor", option(&RopeOptions::factor),
      {.fallback = keys.scaling_is_derived ? std::optional<double>() : 1.0,
       .above = 0,
       .aliases = also("factor"),
       .hf_name = path("factor"),
       .doc = "how many times longer the context becomes; longrope: 1 = max_position_embeddings / "
              "original_max_position_embeddings"});
  key("rope_scaling.original_max_position_embeddings", option(&RopeOptions::original_max_positions),
      {.fallback = keys.original_max_positions,
       .same_as =
           keys.scaling_is_derived || keys.original_max_positions ? "" : "max_position_embeddings",
       .min = 1,
       .aliases = also("original_max_position_embeddings", {"original_max_position_embeddings"}),
       .hf_name = keys.original_max_positions ? "original_max_position_embeddings"
                                              : path("original_max_position_embeddings"),
       .doc = "tokens of context before stretching"});
  key("rope_scaling.low_freq_factor", option(&RopeOptions::low_freq_factor),
      {.fallback = 1.0,
       .above = 0,
       .aliases = also("low_freq_factor"),
       .hf_name = path("low_freq_factor"),
       .doc = "scaling by bands: wavelengths above original / this are divided by factor"});
  key("rope_scaling.high_freq_factor", option(&RopeOptions::high_freq_factor),
      {.fallback = 4.0,
       .above = 0,
       .aliases = also("high_freq_factor"),
       .hf_name = path("high_freq_factor"),
       .doc = "scaling by bands: wavelengths below original / this are kept"});
  key("rope_scaling.beta_fast", option(&RopeOptions::beta_fast),
      {.fallback = 32.0,
       .above = 0,
       .aliases = also("beta_fast"),
       .hf_name = path("beta_fast"),
       .doc = "yarn: rotations in the original context from which frequencies are kept"});
  key("rope_scaling.beta_slow", option(&RopeOptions::beta_slow),
      {.fallback = 1.0,
       .above = 0,
       .aliases = also("beta_slow"),
       .hf_name = path("beta_slow"),
       .doc = "yarn: rotations below which they are divided by factor"});
  // Transformers reads it only beside the other keys of a flat object.
  const bool reads_truncate = keys.group.empty();
  key("rope_scaling.truncate", option(&RopeOptions::truncate),
      {.fallback = keys.scaling_is_derived ? std::optional<bool>() : true,
       .aliases = reads_truncate ? also("truncate") : std::vector<std::string_view>{},
       .own = !reads_truncate,
       .doc = "yarn: round the ends of the ramp to integer dims"});
  if (!reads_truncate) key.ignore({"rope_scaling.truncate"});
  key("rope_scaling.attention_factor", option(&RopeOptions::attention_factor),
      {.fallback = keys.attention_factor_is_derived ? std::optional<double>() : 0.0,
       .min = 0,
       .aliases = also("attention_factor"),
       .hf_name = path("attention_factor"),
       .doc = "yarn, longrope: multiplies cosines and sines; 0 = derived from the other keys"});
  key("rope_scaling.mscale", option(&RopeOptions::mscale),
      {.fallback = 0.0,
       .min = 0,
       .aliases = also("mscale"),
       .hf_name = path("mscale"),
       .doc = "yarn: with mscale_all_dim, gives attention_factor"});
  key("rope_scaling.mscale_all_dim", option(&RopeOptions::mscale_all_dim),
      {.fallback = 0.0,
       .min = 0,
       .aliases = also("mscale_all_dim"),
       .hf_name = path("mscale_all_dim"),
       .doc = "yarn: see mscale"});
  const std::vector<std::string_view> types = rope_types(keys);
  if (std::find(types.begin(), types.end(), kLongRope) != types.end()) {
    key("rope_scaling.short_factor", option(&RopeOptions::short_factor),
        {.above = 0,
         .aliases = also("short_factor"),
         .hf_name = path("short_factor"),
         .doc = "longrope: divisor of each frequency up to the original context"});
    key("rope_scaling.long_factor", option(&RopeOptions::long_factor),
        {.above = 0,
         .aliases = also("long_factor"),
         .hf_name = path("long_factor"),
         .doc = "longrope: divisor of each frequency in longer sequences"});
  }
  if (keys.partial_rotary_factor)
    key("partial_rotary_factor",
        [field](Config & c) -> auto& { return std::invoke(field, c).partial_rotary_factor; },
        {.fallback = *keys.partial_rotary_factor,
         .max = 1,
         .above = 0,
         .aliases = also("partial_rotary_factor", {"rope_scaling.partial_rotary_factor"}),
         .doc = "fraction of head_dim to which RoPE is applied"});
  if (keys.mrope_section.empty()) return;
  key("rope_scaling.mrope_section", option(&RopeOptions::mrope_section),
      {.fallback = keys.mrope_section,
       .min = 0,
       .aliases = also("mrope_section"),
       .doc = "number of frequencies rotated by time, by height and by width"});
  key("rope_scaling.mrope_interleaved", option(&RopeOptions::mrope_interleaved),
      {.fallback = keys.mrope_interleaved,
       .aliases = also("mrope_interleaved"),
       .doc = "frequencies of time, height and width are interleaved, not in three blocks"});
}

// Returns the sections for `pairs` frequencies. Interleaved sections give height the frequencies 1,
// 4, 7, ..., width 2, 5, 8, ..., as many as exist, and time the rest, so that any sections fit.
inline Dims fitting_mrope_section(const RopeOptions& o, std::int64_t pairs) {
  const Dims& section = o.mrope_section;
  if (!o.mrope_interleaved || section.size() != 3) return section;
  const std::int64_t height = std::min(section[1], (pairs + 1) / 3);
  const std::int64_t width = std::min(section[2], pairs / 3);
  return {pairs - height - width, height, width};
}

// Converts the keys to options of the op, for heads of width head_dim.
inline RopeOptions rope_options(const RopeConfig& c, std::int64_t head_dim,
                                std::int64_t max_positions) {
  RopeOptions o = c.options;
  // "su" is an earlier name.
  o.scaling = c.type == "default" || c.type == "mrope" ? "none"
              : c.type == "su"                         ? kLongRope
                                                       : c.type;
  if (o.scaling != kLongRope) o.short_factor = o.long_factor = {};
  o.max_positions = max_positions;
  if (c.partial_rotary_factor != 1)
    o.rotary_dim =
        static_cast<std::int64_t>(static_cast<double>(head_dim) * c.partial_rotary_factor);
  o.mrope_section = fitting_mrope_section(o, (o.rotary_dim == 0 ? head_dim : o.rotary_dim) / 2);
  return o;
}

// For validate(): the sizes and sections of rotary positions.
inline void check_rope(const RopeConfig& c, std::int64_t head_dim, const Problems& problem) {
  const KeyNames& name = problem.names();
  const std::string_view width = name("head_dim");
  const std::int64_t rotated = rope_options(c, head_dim, 0).rotary_dim;
  const std::int64_t rotary = rotated == 0 ? head_dim : rotated;
  if (head_dim % 2 != 0)
    problem(width, "got ", head_dim, "; rotary positions need an even ", width);
  else if (c.partial_rotary_factor != 1 && (rotated == 0 || rotated % 2 != 0))
    problem(name("partial_rotary_factor"), "rotates ", rotated, " of ", width, " = ", head_dim,
            " dims; it must rotate an even number above 0");
  const Dims section = fitting_mrope_section(c.options, rotary / 2);
  std::int64_t sum = 0;
  for (std::int64_t n : section) sum += n;
  if (!section.empty() && (section.size() != 3 || sum != rotary / 2))
    problem(name("rope_scaling.mrope_section"), "got ", section.size(), " numbers with the sum ",
            sum, "; it must be three with the sum ", rotary / 2, ", half of the rotated dims (",
            width, " = ", head_dim, ")");
  const std::size_t pairs = static_cast<std::size_t>(rotary / 2);
  for (const auto& [key, divisors] :
       {std::pair{"rope_scaling.short_factor", &c.options.short_factor},
        {"rope_scaling.long_factor", &c.options.long_factor}})
    if ((c.type == kLongRope || c.type == "su") && divisors->size() != pairs)
      problem(name(key), "got ", divisors->size(), " numbers; longrope needs ", pairs,
              ", one for each rotated pair of ", width, " = ", head_dim);
  if (c.type == "llama3" && c.options.low_freq_factor > c.options.high_freq_factor)
    problem(name("rope_scaling.low_freq_factor"), "got ", c.options.low_freq_factor,
            "; it must be at most ", name("rope_scaling.high_freq_factor"), " = ",
            c.options.high_freq_factor);
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
