// How fast the work on text around a model is: its tokenizer, its chat template, its sampler.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bench/device.h"

namespace lamina::bench {

// Medians of the repeats, on one thread; files are in the page cache.
struct TextSpeed {
  double load_seconds = 0;  // of the tokenizer's files
  std::int64_t num_entries = 0;
  double encode_bytes_per_second = 0;
  double decode_bytes_per_second = 0;    // of the text that ids become, as they are streamed
  std::optional<double> render_seconds;  // of kMessages messages; absent: no chat template
  double sample_seconds = 0;             // of a token, with every option on
  double read_seconds = 0;               // that a model of kModelBytes needs per token
  double sample_share() const { return sample_seconds / read_seconds; }

  static constexpr int kMessages = 100;
  static constexpr double kModelBytes = 1.2e9;  // 0.6 billion parameters in bfloat16
};

// Of the model directory. REQUIRES: `text` is not empty. Errors: those of load_tokenizer() and
// Form::load().
TextSpeed bench_text(const std::string& directory, std::string_view text, int repeats,
                     const Device& device);

}  // namespace lamina::bench
