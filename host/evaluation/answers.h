// Tasks that a model answers in its own words: generated text that must be an expected one.
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

// {"prompt": "2 + 2 =", "answer": "4", "stop": ["\n"]}; answer and stop are a text or a list, of
// answers any is right, and stop may be left out.
struct Exercise {
  Place place;
  std::vector<std::int32_t> prompt;
  std::vector<std::string> answers;
  std::vector<std::string> stop;  // beside those of the call
};

// The exercises of each file. Errors (class data), with file and line: what is no such record; a
// prompt with an id outside the vocabulary; no record in any file.
std::vector<Exercise> read_exercises(const std::vector<std::string>& files,
                                     const Prompting& prompting, const decoder::Model& model);

// How texts are made alike before they are compared, in this order: letters in lower case (Unicode)
// if asked for; ASCII punctuation removed if asked for; white space at the ends removed and every
// other run of it a single space.
struct Comparison {
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
  bool logprobs = false;  // also of each token
  Comparison comparison = {};
};

// Greedy. Throws UserError (class data), with file and line, for a prompt that leaves no room for
// an answer in the model's positions. What prompts have in common at their beginning is read once.
std::vector<Answer> evaluate_answers(
    const decoder::Model& model, std::span<void* const> weights,
    const std::vector<Exercise>& exercises, const text::Tokenizer& tokenizer,
    const Answering& options, const Backend& backend,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& progress = {});

}  // namespace lamina::evaluation
