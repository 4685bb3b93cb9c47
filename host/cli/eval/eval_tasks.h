// The tasks of `lamina eval`: each reads its data, computes, and reports the result.
#pragma once

#include <string>

#include "cli/eval/eval_subject.h"
#include "device/device.h"
#include "evaluation/windows.h"

namespace lamina::cli {

// For --task text on a device with too little memory: see advice_on_memory().
inline constexpr const char* kFewerRows = "fewer rows at a time (--batch), shorter rows (--tokens)";

// Text for people, or one JSON object with --json. Throws StopAsked when a signal has asked to.
std::string evaluate_text(const Arguments& a, const device::Device& device, EvalSubject subject);
// The part of evaluate_text() for --against: compares the model with a second one over the rows.
// Throws UserError (exit 2) if the two have different tokens.
std::string evaluate_against(const Arguments& a, const device::Device& device, EvalSubject subject,
                             EvalSubject reference, const evaluation::RowsOfWindow& rows);
std::string evaluate_choices(const Arguments& a, const device::Device& device, EvalSubject subject);
std::string evaluate_answers(const Arguments& a, const device::Device& device, EvalSubject subject);

// A value of --task and its function.
struct EvalTask {
  std::string name;
  std::string (*run)(const Arguments& a, const device::Device& device, EvalSubject subject);
  std::vector<std::string> options;  // options that not every task has
};
const std::vector<EvalTask>& eval_tasks();

}  // namespace lamina::cli
