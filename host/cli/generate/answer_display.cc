#include "cli/generate/answer_display.h"

#include <exception>

#include "core/printable.h"

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

AnswerDisplay::~AnswerDisplay() {
  if (!is_dim_) return;
  try {
    emit(kPlain);
  } catch (const std::exception&) {  // the error of the output is reported already
  }
}

void AnswerDisplay::watch(decode::GenerateOptions& options) {
  options.control_tokens = marks_.control_tokens();
  options.on_control = [this](std::int32_t id) { splitter_.push_control(id); };
}

chat::Thought AnswerDisplay::finish() {
  splitter_.finish();
  end_reasoning_without_beginning();
  change(chat::AnswerPart::answer);
  return splitter_.thought();
}

void AnswerDisplay::show(std::string_view text, chat::AnswerPart part) {
  end_reasoning_without_beginning();
  change(part);
  if (style_.escape_controls)
    emit(printable_lines(text));
  else
    emit(text);
}

void AnswerDisplay::change(chat::AnswerPart part) {
  if (part == shown_) return;
  shown_ = part;
  if (part == chat::AnswerPart::reasoning) {
    is_dim_ = style_.dim_reasoning;
    if (is_dim_) emit(kDim);
    emit(kBegin);
  } else {
    emit(kEnd);
    if (is_dim_) emit(kPlain);
    is_dim_ = false;
  }
}

void AnswerDisplay::end_reasoning_without_beginning() {
  if (has_late_end_ || !splitter_.lacked_beginning()) return;
  has_late_end_ = true;
  emit(kEnd);
}

void AnswerDisplay::emit(std::string_view text) {
  if (emit_ && !text.empty()) emit_(text);
}

}  // namespace lamina::cli
