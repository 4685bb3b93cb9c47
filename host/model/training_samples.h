// Texts that a model in training goes on with from time to time.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "config/run_config.h"
#include "decode/session.h"
#include "decoder/model.h"
#include "text/tokenizer.h"
#include "train/loop.h"

namespace lamina::model {

// What train.sample_prompts asks for. Each prompt has a draw of its own, a function of run.seed
// and the prompt's index: texts change with the weights alone. Training reads nothing of it. [one
// thread]
class TrainingSamples {
 public:
  // Throws UserError (exit 2): a model that decodes nothing, a prompt without tokens, or one that
  // leaves no room in the model's positions. Memory is taken at the first call of sample().
  // REQUIRES: all of these outlive it.
  TrainingSamples(const config::RunConfig& run, const decoder::Model& model,
                  const text::Tokenizer& tokenizer, const Backend& backend);

  // `used`: one pointer per parameter, the same at every call.
  std::vector<train::Sample> sample(std::span<void* const> used);

 private:
  const config::RunConfig& run_;
  const decoder::Model& model_;
  const text::Tokenizer& tokenizer_;
  const Backend& backend_;
  std::vector<std::vector<std::int32_t>> prompts_;
  std::int64_t context_ = 1;
  std::unique_ptr<decode::Session> session_;
};

}  // namespace lamina::model
