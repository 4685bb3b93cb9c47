// lamina eval: measures predictions, choices and answers of a model.
#include <fmt/format.h>

#include <algorithm>

#include "cli/eval/eval_logprobs.h"
#include "cli/eval/eval_tasks.h"
#include "cli/shell/command.h"
#include "cli/shell/output_file.h"
#include "cli/shell/signals.h"
#include "cli/shell/weight_choice.h"
#include "core/error.h"
#include "data/find_files.h"
#include "decoder/call_limits.h"

namespace lamina::cli {

const std::vector<EvalTask>& eval_tasks() {
  static const std::vector<EvalTask> tasks = {
      {"text",
       evaluate_text,
       {"form", "chat-template", "tokens", "stride", "batch", "separator", "against", "ids",
        "kv-dtype"}},
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
                         fmt::format("cannot be used with --task {}; it belongs to --task {}",
                                     wanted.name, task.name),
                         {fmt::format("remove it, or add --task {}", task.name)}});
  const bool reads_chats = std::ranges::find(wanted.options, "chat") != wanted.options.end()
                               ? a.flag("chat")
                               : a.text("form") == "chat";
  if (a.has("chat-template") && !reads_chats)
    throw UserError(ExitCode::usage, {"--chat-template",
                                      fmt::format("needs {}; add it",
                                                  wanted.name == "text" ? "--form chat" : "--chat"),
                                      {}});
  for (const std::string& stop : a.texts("stop"))
    if (stop.empty())
      throw UserError(ExitCode::usage, {"--stop", "got ''; expected at least one character", {}});
  return wanted;
}

void check_logprobs(const Arguments& a) {
  std::vector<std::string> inputs =
      given_files(a, {"model", "adapter", "chat-template", "against"});
  for (const std::string& pattern : a.texts("data"))
    for (std::string& file : data::find_files(pattern)) inputs.push_back(std::move(file));
  check_output_file(a.text("logprobs"), inputs, {"a file of --logprobs", is_logprobs_file});
}

int run_eval(const Arguments& a, const Device& device) {
  const EvalTask& task = task_of(a);
  if (a.has("logprobs")) check_logprobs(a);
  device.use_threads(a.globals.threads);
  catch_stop_signals();
  try {
    print(task.run(a, device, find_eval_subject(a)));
  } catch (const StopAsked&) {
    return 128 + stop_signal();
  }
  return 0;
}

Option eval_kv_dtype_option() {
  Option out = kv_dtype_option();
  out.key.doc =
      "With --against: keys and values of the model in one byte each, as in decoding, where each "
      "token reads them from the decode state. Sets model.kv_dtype.";
  return out;
}

std::vector<Option> eval_options() {
  std::vector<std::string> names;
  for (const EvalTask& task : eval_tasks()) names.push_back(task.name);
  Option data = text_option("data", 'd', "FILE",
                            "A file, a folder or a glob; may be repeated. Text, or "
                            "for other tasks JSON lines.");
  data.repeatable = true;
  Option stop = text_option("stop", 0, "TEXT",
                            "answers: ends an answer and is not part of it; may be given several "
                            "times.");
  stop.repeatable = true;
  Option delimiter =
      text_option("delimiter", 0, "TEXT", "choices: text between context and choice.");
  delimiter.key.preset = Value(" ");
  return {
      model_option(),
      adapter_option(),
      weights_option(),
      packed_option(),
      quantize_option(),
      quantize_rule_option(),
      choice_option("task", "TASK", names, "text",
                    "text: loss on a text; choices: which of several "
                    "continuations is likeliest; answers: generated text compared with the "
                    "expected answer."),
      data,
      text_option("against", 0, "DIR",
                  "text: a second model; compares the predictions of both over --data or --ids: "
                  "perplexities, KL divergence per token, equal likeliest tokens."),
      eval_kv_dtype_option(),
      text_option("ids", 0, "1,2,3", "With --against: token ids instead of --data."),
      choice_option("form", "FORM", {"text", "chat"}, "text",
                    "text: form of the files of --data: plain text, or JSON lines of conversations "
                    "or of prompts and completions, whose answers are scored, as data.form."),
      integer_option("tokens", 'n', 512,
                     "text: documents are read in windows of up to this many tokens; records are "
                     "cut to rows of this many.",
                     1, decoder::kMaxTokens),
      integer_option("stride", 0, {},
                     "text: distance in tokens between the starts of windows; "
                     "each token is scored once; default: --tokens.",
                     1, decoder::kMaxTokens),
      choice_option("separator", "WHAT", {"file", "blank_line", "line"}, "file",
                    "text: ends a document in the files of --data."),
      integer_option("batch", 'b', 8, "Rows computed together.", 1, decoder::kMaxTokens),
      delimiter,
      integer_option("max-new-tokens", 0, kAnswerTokens, "answers: maximum length.", 1,
                     decoder::kMaxTokens),
      stop,
      flag_option("ignore-case", "answers: compare in lower case."),
      flag_option("ignore-punctuation", "answers: compare without ASCII punctuation."),
      flag_option("chat",
                  "Send contexts and prompts to the model as user messages in its own chat "
                  "form."),
      text_option("chat-template", 0, "FILE",
                  "With --chat or --form chat: a template in place of the model's."),
      text_option("logprobs", 0, "FILE",
                  "Also write the log probability of each token to this file, as JSON lines. Only "
                  "an earlier such file is overwritten."),
      dtype_option(
          {},
          "Type to compute in. Default: the run's type for its validation text, else bfloat16."),
      device_option(),
      json_option()};
}

}  // namespace

Command eval_command() {
  return {.name = "eval",
          .summary = "measures a model on texts, multiple choice or questions",
          .details =
              "text: the mean loss over every token that follows another in its document, its "
              "perplexity, and the bits per byte of text, which compares models with "
              "different tokenizers. For a model with multi-token prediction also the share of "
              "tokens that each "
              "depth predicts as the model does. For a run without "
              "--data: on the run's held-out "
              "validation data, with the newest checkpoint. choices: acc and acc_norm. answers: "
              "exact_match. docs/evaluation.md describes the records.",
          .options = eval_options(),
          .positionals = {{.name = "RUN_DIR",
                           .doc = "A run directory or checkpoint.",
                           .required = false}},
          .examples = {"lamina eval build/quickstart/run",
                       "lamina eval -m model --data book.txt --tokens 1024 --stride 512",
                       "lamina eval -m model --data conversations.jsonl --form chat",
                       "lamina eval -m model.gguf --against model --data book.txt",
                       "lamina eval -m model --task choices --data questions.jsonl --json"},
          .run = run_eval};
}

}  // namespace lamina::cli
