// Multiple choice: which of several continuations a model finds likeliest.
#pragma once

#include <string>
#include <vector>

#include "evaluation/prompting.h"
#include "evaluation/records.h"
#include "evaluation/scorer.h"

namespace lamina::evaluation {

// {"context": "The sky is", "choices": ["green", "blue"], "answer": 1}
struct Question {
  Place place;
  std::string context;
  std::vector<std::string> choices;
  std::size_t answer = 0;                   // from 0
  std::vector<Continuation> continuations;  // one per choice
};

// The questions of each file, ready to be scored; between context and choice stands `delimiter`,
// but for chats. Errors (class data), with file and line: what is no such record; an answer that is
// no choice; no more than one choice; a continuation with no token to score, with an id outside the
// vocabulary, or longer than the model's positions; no record in any file.
std::vector<Question> read_questions(const std::vector<std::string>& files,
                                     const Prompting& prompting, const std::string& delimiter,
                                     const decoder::Model& model);

struct Choice {
  std::vector<std::vector<float>> logprobs;  // of the tokens of each choice
  std::size_t likeliest = 0;                 // by the sum; of equal ones the first
  std::size_t likeliest_per_character = 0;   // by the sum over the characters of the choice
};

// Whether the first is right is `acc` of lm-evaluation-harness, whether the second is `acc_norm`.
std::vector<Choice> evaluate_choices(
    const std::vector<Question>& questions, Scorer& scorer,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& progress = {});

}  // namespace lamina::evaluation
