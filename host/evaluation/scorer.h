// Log probabilities of continuations of prompts.
//
//   Scorer scorer(model, weights.pointers(), {}, backend);
//   scorer.score({{.tokens = {1, 15043, 3186}, .prompt_tokens = 2}});  // {{log p(3186 | 1,
//   15043)}}
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "evaluation/text.h"

namespace lamina::evaluation {

struct Continuation {
  std::vector<std::int32_t> tokens;
  std::size_t prompt_tokens = 1;  // tokens after this many are scored
};

class Scorer {
 public:
  // `weights`: one pointer per parameter, valid for the lifetime of the scorer.
  Scorer(const decoder::Model& model, std::span<const ConstTensorRef> weights,
         const Computing& computing, const Backend& backend)
      : model_(model), weights_(weights), computing_(computing), backend_(backend) {}

  // The graph of the continuations that are computed first, which need the most memory.
  static decoder::ModelGraph largest_graph(const decoder::Model& model,
                                           std::span<const Continuation> continuations,
                                           const Computing& computing);

  // Returns for each continuation the log probabilities of its tokens after the prompt, in order.
  // Continuations of similar length are computed together. `progress` counts continuations.
  // REQUIRES: a prompt of at least one token and a token after it; no more tokens than the model
  // has positions.
  std::vector<std::vector<float>> score(
      std::span<const Continuation> continuations,
      const std::function<void(std::uint64_t done, std::uint64_t total)>& progress = {});

 private:
  const decoder::Model& model_;
  std::span<const ConstTensorRef> weights_;
  Computing computing_;
  const Backend& backend_;
};

}  // namespace lamina::evaluation
