// lamina eval: what a model predicts, chooses and answers.
#include <fmt/format.h>

#include <algorithm>

#include "cli/eval/eval_tasks.h"
#include "cli/shell/commands.h"
#include "cli/shell/output_file.h"
#include "cli/shell/signals.h"
#include "cli/shell/weight_choice.h"
#include "core/error.h"
#include "decoder/call_limits.h"

namespace lamina::cli {

const std::vector<EvalTask>& eval_tasks() {
  static const std::vector<EvalTask> tasks = {
      {"text", evaluate_text, {"tokens", "stride", "batch", "separator"}},
      {"choices", evaluate_choices, {"batch", "delimiter", "chat", "chat-template"}},
      {"answers",
       evaluate_answers,
       {"max-new-tokens", "stop", "ignore-case", "ignore-punctuation", "chat", "chat-template"}},
  };
  return tasks;
}

namespace {

constexpr std::int64_t kAnswerTokens = 128;

const EvalTask& task_of(const Arguments& a) {
  const EvalTask& wanted = *std::ranges::find(eval_tasks(), a.text("task"), &EvalTask::name);
  for (const EvalTask& task : eval_tasks())
    for (const std::string& option : task.options)
      if (a.has(option) && std::ranges::find(wanted.options, option) == wanted.options.end())
        throw UserError(ExitCode::usage,
                        {fmt::format("--{}", option),
                         fmt::format("is not of --task {}, but of {}", wanted.name, task.name),
                         {fmt::format("leave it out, or add --task {}", task.name)}});
  if (a.has("chat-template") && !a.flag("chat"))
    throw UserError(ExitCode::usage, {"--chat-template", "belongs to a chat; add --chat", {}});
  for (const std::string& stop : a.texts("stop"))
    if (stop.empty())
      throw UserError(ExitCode::usage, {"--stop", "got ''; expected at least one character", {}});
  return wanted;
}

int run_eval(const Arguments& a, const Machine& machine) {
  const EvalTask& task = task_of(a);
  if (a.has("logprobs")) check_output_file(a.text("logprobs"));
  machine.use_threads(a.globals.threads);
  catch_stop_signals();
  try {
    print(task.run(a, machine, find_eval_subject(a)));
  } catch (const StopAsked&) {
    return 128 + stop_signal();
  }
  return 0;
}

std::vector<Option> eval_options() {
  std::vector<std::string> names;
  for (const EvalTask& task : eval_tasks()) names.push_back(task.name);
  Option data = text_option("data", 'd', "FILE",
                            "A file, a folder or a glob; may be given several times. Text, or "
                            "for other tasks JSON lines.");
  data.repeatable = true;
  Option stop = text_option("stop", 0, "TEXT",
                            "Of answers: this ends one and is not part of it; may be given several "
                            "times.");
  stop.repeatable = true;
  Option delimiter =
      text_option("delimiter", 0, "TEXT", "Of choices: what comes between context and choice.");
  delimiter.key.preset = Value(" ");
  return {
      model_option(),
      adapter_option(),
      weights_option(),
      choice_option("task", "TASK", names, "text",
                    "text: how well the model predicts it; choices: which of several "
                    "continuations it finds likeliest; answers: whether it generates the "
                    "expected one."),
      data,
      integer_option("tokens", 'n', 512,
                     "Of text: documents are read in windows of up to this many tokens.", 1,
                     decoder::kMaxTokens),
      integer_option("stride", 0, {},
                     "Of text: each window begins this many tokens after the one before it, and "
                     "only tokens that no window before has are scored; default: --tokens.",
                     1, decoder::kMaxTokens),
      choice_option("separator", "WHAT", {"file", "blank_line", "line"}, "file",
                    "Of text: what ends a document in the files of --data."),
      integer_option("batch", 'b', 8, "Rows computed together.", 1, decoder::kMaxTokens),
      delimiter,
      integer_option("max-new-tokens", 0, kAnswerTokens, "Of answers: the longest.", 1,
                     decoder::kMaxTokens),
      stop,
      flag_option("ignore-case", "Of answers: compare in lower case."),
      flag_option("ignore-punctuation", "Of answers: compare without ASCII punctuation."),
      flag_option("chat",
                  "Send contexts and prompts to the model as a user's messages, in its own chat "
                  "form."),
      text_option("chat-template", 0, "FILE", "With --chat: a template in place of the model's."),
      text_option("logprobs", 0, "FILE",
                  "Also write the log probability of each token to this file, as JSON lines."),
      dtype_option({}, "Type to compute in. The run's for its validation text, else bfloat16."),
      json_option()};
}

}  // namespace

Command eval_command() {
  return {
      .name = "eval",
      .summary = "measures a model on texts, multiple choice or questions",
      .details =
          "Of text: the mean loss over every token that follows another in its document, its "
          "perplexity, and the bits per byte of text, which compares models with "
          "different tokenizers. For a model with multi-token prediction also how often each "
          "of its depths proposes the token that the model chooses. For a run without "
          "--data: on what the run held out "
          "for validation, with the newest checkpoint. Of choices: acc and acc_norm; of answers: "
          "exact_match; docs/evaluation.md has the forms of their records.",
      .options = eval_options(),
      .positionals = {{.name = "RUN_DIR",
                       .doc = "A run directory or checkpoint.",
                       .required = false}},
      .examples = {"lamina eval runs/quickstart",
                   "lamina eval -m model --data book.txt --tokens 1024 --stride 512",
                   "lamina eval -m model --task choices --data questions.jsonl --json"},
      .run = run_eval};
}

}  // namespace lamina::cli
