// The options of `lamina decode` that say how a token is chosen.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "decode/sampler.h"

namespace lamina::cli {

// --temp, --top-k, --repeat-penalty ...: in the order in which they act.
std::vector<Option> sampler_options();

// Their values. `end_tokens`: what --min-tokens forbids. Throws UserError (exit 2) for texts that
// are no ids.
decode::SamplerOptions read_sampler_options(const Arguments& a,
                                            std::vector<std::int32_t> end_tokens);

}  // namespace lamina::cli
