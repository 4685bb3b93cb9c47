// lamina eval --task choices and --task answers: the share of right answers.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/eval/eval_logprobs.h"
#include "cli/eval/eval_tasks.h"
#include "cli/eval/named_model.h"
#include "cli/generate/chat_options.h"
#include "cli/plan/device_memory.h"
#include "cli/shell/signals.h"
#include "cli/shell/status_line.h"
#include "cli/shell/units.h"
#include "core/log.h"
#include "data/find_files.h"
#include "evaluation/answers.h"
#include "evaluation/choices.h"
#include "model/results.h"

namespace lamina::cli {
namespace {

using evaluation::RecordPlace;
using evaluation::Share;

std::vector<std::string> files_of(const Arguments& a) {
  std::vector<std::string> out;
  for (const std::string& pattern : a.texts("data"))
    for (std::string& file : data::find_files(pattern)) out.push_back(std::move(file));
  if (out.empty())
    throw UserError(ExitCode::usage,
                    {"eval",
                     fmt::format("--task {} needs its records; give them with --data FILE.jsonl",
                                 a.text("task")),
                     {}});
  return out;
}

std::optional<chat::Form> chat_form(const Arguments& a, const EvalSubject& s) {
  if (!a.flag("chat")) return {};
  try {
    return load_form(a, s.opened.directory);
  } catch (const UserError& error) {
    // This class means that there is no template, or that the given one cannot be read.
    if (error.code() != ExitCode::data || a.has("chat-template")) throw;
    ErrorText text = error.text();
    text.notes = {"give one with --chat-template FILE, or remove --chat"};
    throw UserError(error.code(), std::move(text));
  }
}

// Counts a task's results, per file and in total.
class Scores {
 public:
  Scores(std::vector<std::string> files, std::vector<std::string> names)
      : files_(std::move(files)), names_(std::move(names)) {
    by_file_.resize(files_.size() + 1, std::vector<Share>(names_.size()));
  }

  void add(const RecordPlace& place, std::size_t name, bool hit) {
    by_file_[place.file][name].add(hit);
    by_file_.back()[name].add(hit);
  }

  std::string json(const Arguments& a, const NamedModel& model, DType dtype) const {
    JsonWriter json(2);
    json.begin_object();
    write_model(json, model);
    json.key("task").value(a.text("task"));
    add(by_file_.back(), json);
    json.key("files").begin_array();
    for (std::size_t file = 0; file < files_.size(); ++file) {
      json.begin_object().key("file").value(files_[file]);
      add(by_file_[file], json);
      json.end_object();
    }
    return json.end_array().key("dtype").value(long_name(dtype)).end_object().text() + "\n";
  }

  std::string table(const NamedModel& model) const {
    std::size_t width = 4, name_width = 0;
    for (const auto& [name, value] : model) name_width = std::max(name_width, name.size());
    for (const std::string& file : files_) width = std::max(width, file.size());
    std::string out =
        fmt::format("{}\n{:<{}}  records", model_lines(model, name_width + 2), "file", width);
    for (const std::string& name : names_) out += fmt::format("  {:<16}", name);
    while (out.back() == ' ') out.pop_back();
    out += '\n';
    for (std::size_t file = 0; file <= files_.size(); ++file) {
      if (file == files_.size() && files_.size() == 1) break;  // the total would repeat the line
      out += fmt::format("{:<{}}  {:>7}", file < files_.size() ? files_[file] : "all", width,
                         by_file_[file][0].total);
      for (const Share& share : by_file_[file]) {
        const std::optional<double> error = share.standard_error();
        out += fmt::format("  {:<16}", fmt::format("{:.4f}{}", share.value(),
                                                   error ? fmt::format(" +- {:.4f}", *error) : ""));
      }
      while (out.back() == ' ') out.pop_back();
      out += '\n';
    }
    return out;
  }

 private:
  void add(const std::vector<Share>& shares, JsonWriter& json) const {
    json.key("records").value(shares[0].total);
    for (std::size_t i = 0; i < names_.size(); ++i) {
      json.key(names_[i]).value(shares[i].value()).key(names_[i] + "_stderr");
      const std::optional<double> error = shares[i].standard_error();
      error ? json.value(*error) : json.null();
    }
  }

  std::vector<std::string> files_, names_;
  std::vector<std::vector<Share>> by_file_;  // the last is the total
};

std::function<void(std::uint64_t, std::uint64_t)> shown_progress(StatusLine& status,
                                                                 const char* what) {
  return [&status, what](std::uint64_t done, std::uint64_t total) {
    end_if_asked();
    status.show(done == total,
                [&](double s) { return count_line("evaluating", what, done, total, s); });
  };
}

void write_choices(const evaluation::Question& question, const evaluation::Choice& choice,
                   const text::Tokenizer& tokenizer, LogprobsFile& file) {
  JsonWriter json;
  json.begin_object().key("record").value(question.place.text);
  json.key("answer").value(question.answer).key("likeliest").value(choice.likeliest);
  json.key("likeliest_per_character").value(choice.likeliest_per_character);
  json.key("choices").begin_array();
  for (std::size_t i = 0; i < question.choices.size(); ++i) {
    const evaluation::Continuation& c = question.continuations[i];
    json.begin_object();
    add_logprobs(std::span(c.tokens).subspan(c.prompt_tokens), choice.logprobs[i], tokenizer, json);
    json.end_object();
  }
  file.write_line(json.end_array().end_object());
}

void write_answer(const evaluation::Exercise& exercise, const evaluation::Answer& answer,
                  const text::Tokenizer& tokenizer, LogprobsFile& file) {
  JsonWriter json;
  json.begin_object().key("record").value(exercise.place.text);
  json.key("text").value(answer.generated.text).key("matches").value(answer.matches);
  json.key("finish_reason").value(decode::name(answer.generated.reason));
  std::vector<float> logprobs;
  for (const decode::TokenLogprobs& token : answer.generated.logprobs)
    logprobs.push_back(static_cast<float>(token.chosen));
  add_logprobs(answer.generated.tokens, logprobs, tokenizer, json);
  file.write_line(json.end_object());
}

// Names the first of the answers that end where the model's positions do.
void warn_of_cut_answers(const std::vector<evaluation::Exercise>& exercises,
                         const std::vector<evaluation::Answer>& answers) {
  const auto is_cut = [](const evaluation::Answer& answer) {
    return answer.generated.reason == decode::StopReason::context;
  };
  const auto first = std::ranges::find_if(answers, is_cut);
  if (first == answers.end()) return;
  const auto i = static_cast<std::size_t>(first - answers.begin());
  const std::int64_t more = std::ranges::count_if(answers, is_cut) - 1;
  log::warning("{}: the answer is cut after {}: no position of the model is left{}",
               exercises[i].place.text, number_of(std::ssize(first->generated.tokens), "token"),
               more > 0 ? fmt::format(" (and {} more)", more) : "");
}

std::string result_text(const Arguments& a, const Scores& scores, const model::Loaded& m,
                        DType dtype) {
  const NamedModel named = name_model(a, m.opened);
  return a.flag("json") ? scores.json(a, named, dtype) : scores.table(named);
}

}  // namespace

std::string evaluate_choices(const Arguments& a, const Device& device, EvalSubject subject) {
  const std::vector<std::string> files = files_of(a);
  const std::optional<chat::Form> form = chat_form(a, subject);
  const auto questions =
      evaluation::read_questions(files, {*subject.tokenizer, form ? &*form : nullptr},
                                 a.text("delimiter"), *subject.opened.model);
  const DType dtype = subject.dtype;
  LogprobsFile file(a);
  const evaluation::Computing computing{.dtype = dtype, .batch_rows = a.integer("batch")};
  const model::Loaded m = std::move(subject).load(device, [&](const decoder::Model& model) {
    if (!has_own_memory(device)) return;
    const auto all = evaluation::continuations_of(questions);
    check_memory(
        graphs_need(model, dtype, {evaluation::Scorer::largest_graph(model, all, computing)},
                    device.backend()),
        device, "eval", advice_on_memory("fewer rows at a time (--batch), shorter records"));
  });
  evaluation::Scorer scorer(m.model(), m.weights.pointers(), computing, device.backend());
  StatusLine status(a.globals.quiet, a.globals.color);
  const auto choices = model::with_named_weights(m, [&] {
    return evaluation::evaluate_choices(questions, scorer, shown_progress(status, "choices"));
  });
  Scores scores(files, {"acc", "acc_norm"});
  for (std::size_t i = 0; i < questions.size(); ++i) {
    scores.add(questions[i].place, 0, choices[i].likeliest == questions[i].answer);
    scores.add(questions[i].place, 1, choices[i].likeliest_per_character == questions[i].answer);
    if (file.is_wanted()) write_choices(questions[i], choices[i], *m.tokenizer, file);
  }
  file.commit();
  return result_text(a, scores, m, dtype);
}

std::string evaluate_answers(const Arguments& a, const Device& device, EvalSubject subject) {
  const std::vector<std::string> files = files_of(a);
  const std::optional<chat::Form> form = chat_form(a, subject);
  const auto exercises = evaluation::read_exercises(
      files, {*subject.tokenizer, form ? &*form : nullptr}, *subject.opened.model);
  const DType dtype = subject.dtype;
  LogprobsFile file(a);
  const model::Loaded m = std::move(subject).load(device, [&](const decoder::Model& model) {
    if (has_own_memory(device))
      check_memory(
          decode_need(
              model,
              evaluation::session_options(exercises, a.integer("max-new-tokens"), dtype, model),
              device.backend()),
          device, "eval", advice_on_memory("shorter records, shorter answers (--max-new-tokens)"));
  });
  StatusLine status(a.globals.quiet, a.globals.color);
  const auto answers = model::with_named_weights(m, [&] {
    return evaluation::evaluate_answers(
        m.model(), m.weights.pointers(), exercises, *m.tokenizer,
        {.dtype = dtype,
         .max_new_tokens = a.integer("max-new-tokens"),
         .stop = a.texts("stop"),
         .end_tokens = m.end_tokens(),
         .logprobs = file.is_wanted(),
         .comparison = {a.flag("ignore-case"), a.flag("ignore-punctuation")}},
        device.backend(), shown_progress(status, "answers"), end_if_asked);
  });
  warn_of_cut_answers(exercises, answers);
  Scores scores(files, {"exact_match"});
  for (std::size_t i = 0; i < exercises.size(); ++i) {
    scores.add(exercises[i].place, 0, answers[i].matches);
    if (file.is_wanted()) write_answer(exercises[i], answers[i], *m.tokenizer, file);
  }
  file.commit();
  return result_text(a, scores, m, dtype);
}

}  // namespace lamina::cli
