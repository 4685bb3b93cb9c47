// Measures the work on text around a model: tokenizer, chat template, sampler.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "device/device.h"

namespace lamina::bench {

// Medians of the repeats, on one thread; files are in the page cache.
struct TextSpeed {
  double load_seconds = 0;  // to load the tokenizer's files
  std::int64_t num_entries = 0;
  double encode_bytes_per_second = 0;
  double decode_bytes_per_second = 0;    // of streamed text
  std::optional<double> render_seconds;  // for kMessages messages; absent: no chat template
  double sample_seconds = 0;             // per token, with every option on
  double read_seconds = 0;               // to read a model of kModelBytes, per token
  double sample_share() const { return sample_seconds / read_seconds; }

  static constexpr int kMessages = 100;
  static constexpr double kModelBytes = 1.2e9;  // 0.6 billion parameters in bfloat16
};

// Measures a model directory. REQUIRES: `text` is not empty. Errors: the errors of load_tokenizer()
// and Form::load().
TextSpeed bench_text(const std::string& directory, std::string_view text, int repeats,
                     const device::Device& device);

}  // namespace lamina::bench
