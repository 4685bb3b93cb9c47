#include "evaluation/answers.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/utf8.h"
#include "evaluation/white_space.h"
#include "text/hf/normalizer.h"

namespace lamina::evaluation {
namespace {

// Tokens of a prompt per call: each call length has its own program.
constexpr std::int64_t kCallTokens = 128;

constexpr const char* kExerciseForm =
    R"(a record is {"prompt": "2+2 is", "answer": "4"}, one per line)";

// An empty list and null mean that a record has no such text.
bool has_texts(const JsonValue& value) {
  return value && !value.is_null() && !(value.is_array() && value.size() == 0);
}

Exercise read_exercise(const JsonValue& record, RecordPlace place, const Prompting& prompting,
                       const decoder::Model& model) {
  Exercise out{.place = std::move(place),
               .prompt = prompting.prompt(
                   data::record_member(record, "prompt", "", {kExerciseForm}).as_string()),
               .answers = texts_of(data::record_member(record, "answer", "", {kExerciseForm})),
               .stop = {}};
  if (const JsonValue stop = record.find("stop"); has_texts(stop)) {
    out.stop = texts_of(stop);
    if (std::ranges::find(out.stop, "") != out.stop.end()) stop.fail("must not be empty");
  }
  const std::int32_t largest = *std::ranges::max_element(out.prompt);
  if (largest >= model.vocab_size())
    user_error(ExitCode::data, out.place.text,
               "the tokenizer encodes the prompt with id {}; the model's vocabulary has {}",
               largest, model.vocab_size());
  return out;
}

// Tokens of the longest prompt and its answer.
std::int64_t context_of(const std::vector<Exercise>& exercises, std::int64_t max_new_tokens,
                        const decoder::Model& model) {
  std::int64_t out = 1;
  const auto limit = model.max_length();
  for (const Exercise& exercise : exercises) {
    const auto length = static_cast<std::int64_t>(exercise.prompt.size());
    if (limit && length > *limit)
      user_error(ExitCode::data, exercise.place.text,
                 "the prompt has {} tokens; the model supports at most {}", length, *limit);
    out = std::max(out, length + max_new_tokens - 1);
  }
  return limit ? std::min(out, *limit) : out;
}

}  // namespace

std::vector<Exercise> read_exercises(const std::vector<std::string>& files,
                                     const Prompting& prompting, const decoder::Model& model) {
  return read_all<Exercise>(files, kExerciseForm, [&](const JsonValue& record, RecordPlace place) {
    return read_exercise(record, std::move(place), prompting, model);
  });
}

std::string AnswerComparison::normalized(std::string_view text) const {
  constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
  std::string alike(text);
  if (ignore_case) {
    static const text::Normalizer lower({text::Normalizer::Step::lowercase});
    alike = lower.normalize(alike);
  }
  std::string out;
  bool space = false;
  for (std::string_view rest = alike; !rest.empty();) {
    const std::string_view character = first_character(rest);
    rest.remove_prefix(character.size());
    if (ignore_punctuation && kPunctuation.find(character) != kPunctuation.npos) continue;
    if (is_white_space(character)) {
      space = true;
      continue;
    }
    if (space && !out.empty()) out += ' ';
    space = false;
    out += character;
  }
  return out;
}

decode::SessionOptions session_options(const std::vector<Exercise>& exercises,
                                       std::int64_t max_new_tokens, DType dtype,
                                       const decoder::Model& model) {
  const std::int64_t context = context_of(exercises, max_new_tokens, model);
  return {.capacity = context,
          .call_tokens =
              model.depends_on_length_within(context) ? context : std::min(context, kCallTokens),
          .dtype = dtype};
}

std::vector<Answer> evaluate_answers(
    const decoder::Model& model, std::span<const ConstTensorRef> weights,
    const std::vector<Exercise>& exercises, const text::Tokenizer& tokenizer,
    const Answering& options, const Backend& backend,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& progress,
    const std::function<void()>& between_tokens) {
  const decode::SessionOptions session_of =
      session_options(exercises, options.max_new_tokens, options.dtype, model);
  const std::int64_t context = session_of.capacity;
  decode::Session session(model, weights, session_of, backend);
  const auto should_stop = [&] {
    if (between_tokens) between_tokens();
    return false;
  };
  std::vector<Answer> out;
  for (const Exercise& exercise : exercises) {
    const auto length = static_cast<std::int64_t>(exercise.prompt.size());
    decode::GenerateOptions generate{
        .max_new_tokens = options.max_new_tokens,
        .end_tokens = options.end_tokens,
        .stop = options.stop,
        .num_logprobs = options.logprobs ? 1 : 0,
        .room_tokens = context - length + 1,
        .begins_text = true};  // lm-evaluation-harness decodes the answer alone
    generate.stop.insert(generate.stop.end(), exercise.stop.begin(), exercise.stop.end());
    generate.sampler.temperature = 0;
    const std::size_t kept = session.keep_prefix(exercise.prompt);
    Answer answer{.generated = decode::generate(
                      session, std::span(exercise.prompt).subspan(kept), &tokenizer, generate,
                      [](std::string_view) {}, should_stop)};
    const std::string text = options.comparison.normalized(answer.generated.text);
    answer.matches = std::ranges::any_of(exercise.answers, [&](const std::string& right) {
      return options.comparison.normalized(right) == text;
    });
    out.push_back(std::move(answer));
    if (progress) progress(out.size(), exercises.size());
  }
  return out;
}

}  // namespace lamina::evaluation
