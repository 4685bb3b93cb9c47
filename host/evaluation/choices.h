// Multiple choice: finds the continuation that is likeliest for a model.
#pragma once

#include <string>
#include <vector>

#include "evaluation/prompting.h"
#include "evaluation/records.h"
#include "evaluation/scorer.h"

namespace lamina::evaluation {

// {"context": "The sky is", "choices": ["green", "blue"], "answer": 1}
struct Question {
  RecordPlace place;
  std::string context;
  std::vector<std::string> choices;
  std::size_t answer = 0;                   // from 0
  std::vector<Continuation> continuations;  // one per choice
};

// The questions of each file, ready to be scored; `delimiter` is put between context and choice,
// except in chats. Errors (class data), with file and line: an invalid record; an answer that is
// not a choice; fewer than two choices; a continuation with no token to score, with an id outside
// the vocabulary, or longer than the model's positions; no record in any file.
std::vector<Question> read_questions(const std::vector<std::string>& files,
                                     const Prompting& prompting, const std::string& delimiter,
                                     const decoder::Model& model);

// Returns the continuations of all questions, in order.
std::vector<Continuation> continuations_of(const std::vector<Question>& questions);

struct Choice {
  std::vector<std::vector<float>> logprobs;  // of each choice's tokens
  std::size_t likeliest = 0;                 // by the sum; the first of equal ones
  std::size_t likeliest_per_character = 0;   // by the sum per character of the choice
};

// `likeliest` is scored as `acc` of lm-evaluation-harness, `likeliest_per_character` as `acc_norm`.
std::vector<Choice> evaluate_choices(
    const std::vector<Question>& questions, Scorer& scorer,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& progress = {});

}  // namespace lamina::evaluation
