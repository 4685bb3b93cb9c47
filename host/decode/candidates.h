// Candidates for the next token, and the filters that remove some of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "decode/sampler.h"

namespace lamina::decode {

using Candidates = std::vector<Sampler::Candidate>;

// The tokens of a row that are not in a list of candidates.
struct Rest {
  bool exists = false;
  float largest = 0;  // no logit of the rest is larger
  // Limits of the sum of weights, relative to the likeliest candidate.
  double least = 0, most = 0;
};

// The order by likelihood; the lowest id comes first among equal logits.
bool before(const Sampler::Candidate& a, const Sampler::Candidate& b);

double sum_of(const Candidates& list);

// Applies the filters of the options and sets the weights. `top_logit` is the largest of all.
// Returns false if tokens of the rest could be left, or decide which candidates are left: then the
// list does not suffice. Without a rest it returns true. REQUIRES: the temperature is not 0, the
// list is not empty.
bool filter(const SamplerOptions& options, float top_logit, Candidates& list, Rest rest);

}  // namespace lamina::decode
