// Frequencies of rotary position embeddings with published scalings, for the kernels of rope_table.
// The row of rope in lamina/ops.def defines the scalings. Names, defaults and roundings to f32
// follow the rope_scaling table of Hugging Face's config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/call.h"

namespace lamina::ops {

enum class RopeScaling : std::uint8_t {
  none,
  linear,
  dynamic,
  by_wavelength,  // "llama3"
  yarn,
  longrope,
};

struct RopeSpec {
  std::int64_t rotary_dim;  // even; frequencies are theta^(-2i / rotary_dim)
  double theta;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;
  // Frequencies from this one on are 0, so their channels do not rotate; unset: all rotate.
  std::optional<std::int64_t> num_rotated;

  std::int64_t max_position_embeddings = 0;           // dynamic, longrope
  std::int64_t original_max_position_embeddings = 0;  // by_wavelength, yarn, longrope
  double low_freq_factor = 1, high_freq_factor = 4;   // by_wavelength
  double beta_fast = 32, beta_slow = 1;               // yarn
  bool truncate = true;                               // yarn: ends of the ramp are whole numbers
  std::optional<double> attention_factor;             // yarn, longrope
  std::optional<double> mscale, mscale_all_dim;       // yarn
  std::vector<double> short_factor, long_factor;      // longrope: rotary_dim / 2 each
};

struct RopeFrequencies {
  std::vector<float> inv_freq;  // [rotary_dim / 2]
  float attention_factor;       // multiplies cos and sin
};

// Returns the frequencies. `num_tokens` is the current length of the sequence; only dynamic and
// longrope depend on it. UserError (usage), with the key, for values without frequencies.
RopeFrequencies rope_frequencies(const RopeSpec& spec, std::int64_t num_tokens);

// Checks the attributes of a rope or rope_table node for `rotary_dim` channels at these positions.
void require_rope_attrs(const Call& rope, const Type& positions, std::int64_t rotary_dim);
// Returns the scaling of a rope_table node.
RopeSpec rope_spec(const Call& rope_table);
// The same for `num_channels` channels: those without a frequency do not rotate.
RopeFrequencies rope_frequencies(const RopeSpec& spec, std::int64_t num_tokens,
                                 std::int64_t num_channels);
// Returns the length up to which a row has the frequencies of length 0, and beyond which others;
// nothing if the frequencies do not depend on the length.
std::optional<std::int64_t> rope_length_limit(const RopeSpec& spec);
// Returns the row of positions (0 time, 1 height, 2 width) for each channel; empty if there is one.
std::vector<std::uint8_t> rope_axes(const Call& rope_table);

}  // namespace lamina::ops
