// What a model makes of a few prompts: the samples of a run in training, and of its report.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "decode/session.h"
#include "decoder/model.h"
#include "text/tokenizer.h"
#include "train/loop/loop.h"

namespace lamina::model {

struct TextSampleOptions {
  std::vector<std::string> prompts;
  std::int64_t max_new_tokens = 64;  // per prompt; fewer where the model's positions end
  double temperature = 0;
  std::uint64_t seed = 0;
  DType dtype = DType::f32;                   // of the weights, and to compute in
  std::vector<std::int32_t> end_tokens = {};  // empty: the tokenizer's
  std::string place;                          // of the prompts, for errors
  std::string instead;                        // what to do where the model continues no text
};

// Those of train.sample_prompts.
TextSampleOptions training_samples(const config::RunConfig& run);

// Each prompt has a draw of its own, a function of the seed and the prompt's index: in training
// texts change with the weights alone. [one thread]
class TextSamples {
 public:
  // Throws UserError (exit 2): a model that decodes nothing, a prompt without tokens, or one that
  // leaves no room in the model's positions. Memory is taken at the first call of sample().
  // REQUIRES: model, tokenizer and backend outlive it.
  TextSamples(TextSampleOptions options, const decoder::Model& model,
              const text::Tokenizer& tokenizer, const Backend& backend);

  // `weights`: one pointer per parameter, the same at every call.
  std::vector<train::Sample> sample(std::span<void* const> weights);

 private:
  TextSampleOptions options_;
  const decoder::Model& model_;
  const text::Tokenizer& tokenizer_;
  const Backend& backend_;
  std::vector<std::vector<std::int32_t>> prompts_;
  std::int64_t context_ = 1;
  std::unique_ptr<decode::Session> session_;
};

}  // namespace lamina::model
