// The tasks of `lamina eval`: each reads its data, computes, and says the result.
#pragma once

#include <string>

#include "cli/eval/eval_subject.h"
#include "cli/shell/machine.h"

namespace lamina::cli {

// Text for people, or one JSON object with --json. Throws StopAsked when a signal has asked to.
std::string evaluate_text(const Arguments& a, const Machine& machine, EvalSubject subject);
std::string evaluate_choices(const Arguments& a, const Machine& machine, EvalSubject subject);
std::string evaluate_answers(const Arguments& a, const Machine& machine, EvalSubject subject);

// The values of --task and what does them.
struct EvalTask {
  std::string name;
  std::string (*run)(const Arguments& a, const Machine& machine, EvalSubject subject);
  std::vector<std::string> options;  // that no other task, or not every one, has
};
const std::vector<EvalTask>& eval_tasks();

}  // namespace lamina::cli
