#include "cli/generate/answer_display.h"

#include "cli/shell/terminal.h"

namespace lamina::cli {
namespace {

constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
constexpr std::string_view kDim = "\x1b[2m", kPlain = "\x1b[0m";

}  // namespace

AnswerDisplay::AnswerDisplay(const chat::ReasoningMarks& marks, bool inside, AnswerStyle style,
                             std::function<void(std::string_view)> emit)
    : marks_(marks),
      style_(style),
      emit_(std::move(emit)),
      splitter_(marks, inside,
                [this](std::string_view text, chat::AnswerPart part) { show(text, part); }) {}

void AnswerDisplay::watch(decode::GenerateOptions& options) {
  options.control_tokens = marks_.control_tokens();
  options.on_control = [this](std::int32_t id) { splitter_.push_control(id); };
}

chat::Thought AnswerDisplay::finish() {
  splitter_.finish();
  change(chat::AnswerPart::answer);
  return splitter_.thought();
}

void AnswerDisplay::show(std::string_view text, chat::AnswerPart part) {
  change(part);
  if (style_.escape_controls)
    emit(terminal_text(text));
  else
    emit(text);
}

void AnswerDisplay::change(chat::AnswerPart part) {
  if (part == shown_) return;
  shown_ = part;
  if (part == chat::AnswerPart::reasoning) {
    if (style_.dim_reasoning) emit(kDim);
    emit(kBegin);
  } else {
    emit(kEnd);
    if (style_.dim_reasoning) emit(kPlain);
  }
}

void AnswerDisplay::emit(std::string_view text) {
  if (emit_ && !text.empty()) emit_(text);
}

}  // namespace lamina::cli
