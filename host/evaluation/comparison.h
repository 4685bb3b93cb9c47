// Divergence of the predictions of a model from the predictions of a reference, token by token.
//
//   ModelDivergence d = compare({model, weights}, {original, its_weights}, rows, {}, backend);
//   d.mean_kl();  // nats per token
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "evaluation/text.h"

namespace lamina::evaluation {

// One of the two models, with one pointer per parameter.
struct ComparedModel {
  const decoder::Model& model;
  std::span<const ConstTensorRef> weights;
};

// The predictions of one token, from the logits of both models; in nats, computed in double.
struct TokenDivergence {
  double loss = 0, reference_loss = 0;  // -log p of the token
  double kl = 0;                        // sum over ids of p_reference * log(p_reference / p_model)
  bool agrees = false;                  // both have the largest logit at the same id
};

// REQUIRES: as many logits as reference logits; the label is the index of one.
TokenDivergence compare_token(std::span<const float> logits, std::span<const float> reference,
                              std::int32_t label);

// Sums over the labels that count.
struct ModelDivergence {
  double loss = 0, reference_loss = 0, kl = 0;
  std::int64_t num_tokens = 0, num_agreed = 0;
  double largest_kl = -1;
  std::uint64_t largest_row = 0;   // the row of the largest divergence,
  std::int64_t largest_label = 0;  // and its index among the row's labels that count

  double mean_loss() const { return loss / static_cast<double>(num_tokens); }
  double mean_reference_loss() const { return reference_loss / static_cast<double>(num_tokens); }
  double mean_kl() const { return kl / static_cast<double>(num_tokens); }
  double agreement() const {
    return static_cast<double>(num_agreed) / static_cast<double>(num_tokens);
  }
};

// The graphs that compare() runs for one of the models: its layers, and its head for a few tokens.
std::vector<decoder::ModelGraph> compared_graphs(const decoder::Model& model,
                                                 const RowsOfWindow& rows,
                                                 const Computing& computing);

// Runs both models over the same rows, a batch of rows at a time; logits exist for a few tokens
// only. `progress` counts rows and may throw to stop. REQUIRES: there are rows, and the models have
// vocabularies of one size.
ModelDivergence compare(
    const ComparedModel& model, const ComparedModel& reference, const RowsOfWindow& rows,
    const Computing& computing, const Backend& backend,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& progress);

}  // namespace lamina::evaluation
