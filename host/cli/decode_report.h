// What `lamina decode` says of what it wrote.
#pragma once

#include <cstddef>

#include "decode/generate.h"

namespace lamina::cli {

struct Timings {
  double start_seconds;  // from the start of the program until the prompt is read
  double load_seconds;
  std::size_t prompt_tokens;
};

// To stderr, for people.
void print_stats(const decode::Generated& g, const Timings& t, const decode::Session& session,
                 const decode::SamplerOptions& sampler);
void print_json(const decode::Generated& g, const Timings& t,
                const decode::SamplerOptions& sampler);

}  // namespace lamina::cli
