// Reports the result of `lamina decode`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "chat/reasoning.h"
#include "decode/generate.h"
#include "device/device.h"

namespace lamina::cli {

struct Timings {
  double start_seconds;  // from the start of the program until the prompt has been read
  double load_seconds;
  std::size_t prompt_tokens;
};

// "stopped by an end token", "interrupted"
std::string_view end_in_words(decode::StopReason reason);

// " (7.41 tok/s)": the rate of the tokens after the first, which comes from the prompt; "" without
// such tokens.
std::string decode_rate_text(const decode::Generated& generated);

// Writes a summary for people to stderr.
void print_stats(const decode::Generated& g, const Timings& t, const decode::Session& session,
                 const decode::SamplerOptions& sampler, const device::Device& device);
// `answer`: of a chat; written as "reasoning_content", if there is any, and "content".
void print_json(const decode::Generated& g, const Timings& t, const decode::SamplerOptions& sampler,
                const std::optional<chat::Thought>& answer);

}  // namespace lamina::cli
