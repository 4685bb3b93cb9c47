#include "evaluation/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/utf8.h"

namespace lamina::evaluation {
namespace {

constexpr const char* kQuestionForm =
    R"(a record is {"context": "2+2 is", "choices": ["4", "5"], "answer": 0}, one per line)";

void check(const Continuation& c, const decoder::Model& model) {
  const auto limit = model.max_length();
  const auto inputs = static_cast<std::int64_t>(c.tokens.size()) - 1;
  if (limit && inputs > *limit)
    user_error(ExitCode::data, "", "has {} tokens with its context; the model supports at most {}",
               inputs + 1, *limit + 1);
  const std::int32_t largest = *std::ranges::max_element(c.tokens);
  if (largest >= model.vocab_size())
    user_error(ExitCode::data, "",
               "the tokenizer encodes it with id {}; the model's vocabulary has {}", largest,
               model.vocab_size());
}

Question read_question(const JsonValue& record, RecordPlace place, const Prompting& prompting,
                       const std::string& delimiter, const decoder::Model& model) {
  Question out{.place = std::move(place),
               .context = std::string(
                   data::record_member(record, "context", "", {kQuestionForm}).as_string()),
               .choices = {},
               .continuations = {}};
  const JsonValue choices = data::record_member(record, "choices", "", {kQuestionForm}),
                  answer = data::record_member(record, "answer", "", {kQuestionForm});
  for (const JsonValue choice : choices.elements()) out.choices.emplace_back(choice.as_string());
  if (out.choices.size() < 2)
    choices.fail(fmt::format("must have at least two texts, got {}", out.choices.size()));
  const std::int64_t right = answer.as_int64();
  if (right < 0 || right >= static_cast<std::int64_t>(out.choices.size()))
    answer.fail(fmt::format("must be the index of a choice, 0 to {}, got {}",
                            out.choices.size() - 1, right));
  out.answer = static_cast<std::size_t>(right);
  for (std::size_t i = 0; i < out.choices.size(); ++i) try {
      if (out.choices[i].empty()) user_error(ExitCode::data, "", "is empty; give a text");
      out.continuations.push_back(prompting.continuation(
          out.context, prompting.is_chat() ? out.choices[i] : delimiter + out.choices[i]));
      check(out.continuations.back(), model);
    } catch (const UserError& error) {
      user_error(ExitCode::data, out.place.text, "choice {} {}", i, error.text().what);
    }
  return out;
}

double sum(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

template <typename Value>
std::size_t index_of_largest(std::size_t count, const Value& value) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < count; ++i)
    if (value(i) > value(best)) best = i;
  return best;
}

}  // namespace

std::vector<Question> read_questions(const std::vector<std::string>& files,
                                     const Prompting& prompting, const std::string& delimiter,
                                     const decoder::Model& model) {
  return read_all<Question>(files, kQuestionForm, [&](const JsonValue& record, RecordPlace place) {
    return read_question(record, std::move(place), prompting, delimiter, model);
  });
}

std::vector<Continuation> continuations_of(const std::vector<Question>& questions) {
  std::vector<Continuation> out;
  for (const Question& question : questions)
    out.insert(out.end(), question.continuations.begin(), question.continuations.end());
  return out;
}

std::vector<Choice> evaluate_choices(
    const std::vector<Question>& questions, Scorer& scorer,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& progress) {
  std::vector<std::vector<float>> logprobs = scorer.score(continuations_of(questions), progress);
  std::vector<Choice> out;
  auto next = std::make_move_iterator(logprobs.begin());
  for (const Question& question : questions) {
    const std::size_t count = question.choices.size();
    Choice choice{.logprobs = {next, next + static_cast<std::ptrdiff_t>(count)}};
    next += static_cast<std::ptrdiff_t>(count);
    const auto total = [&](std::size_t i) { return sum(choice.logprobs[i]); };
    choice.likeliest = index_of_largest(count, total);
    choice.likeliest_per_character = index_of_largest(count, [&](std::size_t i) {
      return total(i) / static_cast<double>(utf8_num_characters(question.choices[i]));
    });
    out.push_back(std::move(choice));
  }
  return out;
}

}  // namespace lamina::evaluation
