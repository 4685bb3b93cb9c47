// Completions of a few prompts: the samples of a run in training, and of its report.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
  std::int64_t max_new_tokens = 64;  // per prompt; limited by the model's positions
  double temperature = 0;
  std::uint64_t seed = 0;
  DType dtype = DType::f32;                   // of the weights and of computation
  std::vector<std::int32_t> end_tokens = {};  // empty: the tokenizer's
  std::string place;                          // of the prompts, for errors
  std::string instead;                        // advice if the model cannot continue text
};

// Returns the options of train.sample_prompts.
TextSampleOptions training_samples(const config::RunConfig& run);

// Each prompt has a separate random stream, which depends on the seed and the prompt's index:
// during training, texts change only with the weights. [one thread]
class TextSamples {
 public:
  // Throws UserError (exit 2): a model that cannot decode, a prompt without tokens, or one that is
  // too long for the model's positions. Memory is allocated in the first call of sample().
  // REQUIRES: model, tokenizer and backend outlive it.
  TextSamples(TextSampleOptions options, const decoder::Model& model,
              const text::Tokenizer& tokenizer, const Backend& backend);

  // `weights`: one pointer per parameter, the same in every call. Returns null if
  // `should_stop`, which is called between tokens, returned true before the last text ended.
  std::optional<std::vector<train::Sample>> sample(std::span<const ConstTensorRef> weights,
                                                   const std::function<bool()>& should_stop = {});

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
