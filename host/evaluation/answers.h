// Tasks with free answers: the generated text must equal an expected answer.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "decode/generate.h"
#include "evaluation/prompting.h"
#include "evaluation/records.h"
#include "evaluation/text.h"

namespace lamina::evaluation {

// {"prompt": "2 + 2 =", "answer": "4", "stop": ["\n"]}; answer and stop are a text or a list. Any
// listed answer is right, and stop is optional.
struct Exercise {
  RecordPlace place;
  std::vector<std::int32_t> prompt;
  std::vector<std::string> answers;
  std::vector<std::string> stop;  // in addition to the call's
};

// The exercises of each file. Errors (class data), with file and line: an invalid record; a prompt
// with an id outside the vocabulary; no record in any file.
std::vector<Exercise> read_exercises(const std::vector<std::string>& files,
                                     const Prompting& prompting, const decoder::Model& model);

// Normalisation of texts before they are compared, in this order: letters in lower case (Unicode)
// if requested; ASCII punctuation removed if requested; white space at the ends removed, and every
// other run of it replaced by a single space.
struct AnswerComparison {
  bool ignore_case = false;
  bool ignore_punctuation = false;

  std::string normalized(std::string_view text) const;
};

struct Answer {
  decode::Generated generated;
  bool matches = false;
};

struct Answering {
  DType dtype = DType::bf16;
  std::int64_t max_new_tokens = 128;
  std::vector<std::string> stop = {};
  std::vector<std::int32_t> end_tokens = {};
  bool logprobs = false;  // also return each token's
  AnswerComparison comparison = {};
};

// The session that answers the exercises.
decode::SessionOptions session_options(const std::vector<Exercise>& exercises,
                                       std::int64_t max_new_tokens, DType dtype,
                                       const decoder::Model& model);

// Greedy. Throws UserError (class data), with file and line, for a prompt that leaves no room for
// an answer in the model's positions. An answer that they cut ends as StopReason::context. A common
// beginning of prompts is read once. `progress` counts answers; it and `between_tokens` may throw
// to stop.
std::vector<Answer> evaluate_answers(
    const decoder::Model& model, std::span<const ConstTensorRef> weights,
    const std::vector<Exercise>& exercises, const text::Tokenizer& tokenizer,
    const Answering& options, const Backend& backend,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& progress = {},
    const std::function<void()>& between_tokens = {});

}  // namespace lamina::evaluation
