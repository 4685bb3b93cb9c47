// Shows a chat answer as it arrives, and separates its reasoning.
#pragma once

#include <functional>
#include <string_view>

#include "chat/reasoning.h"
#include "decode/generate.h"

namespace lamina::cli {

struct AnswerStyle {
  bool dim_reasoning = false;    // with escape sequences
  bool escape_controls = false;  // see printable_lines()
};

// Reasoning is shown between "<think>" and "</think>", whatever marks the model uses. Reasoning
// that began before the answer, without a mark at the end of the prompt, has the second one only.
class AnswerDisplay {
 public:
  // `marks` is borrowed. `inside`: the prompt ends with a mark that begins reasoning.
  AnswerDisplay(const chat::ReasoningMarks& marks, bool inside, AnswerStyle style,
                std::function<void(std::string_view)> emit);
  // Ends the dimming of a generation that an error ended inside its reasoning.
  ~AnswerDisplay();
  AnswerDisplay(const AnswerDisplay&) = delete;
  AnswerDisplay& operator=(const AnswerDisplay&) = delete;

  // Makes a generation pass on the marks' control tokens. The display must outlive it.
  void watch(decode::GenerateOptions& options);
  void push(std::string_view text) { splitter_.push(text); }
  // Shows the text held back, and returns all parts.
  chat::Thought finish();

 private:
  void show(std::string_view text, chat::AnswerPart part);
  void change(chat::AnswerPart part);
  void end_reasoning_without_beginning();
  void emit(std::string_view text);

  const chat::ReasoningMarks& marks_;
  AnswerStyle style_;
  std::function<void(std::string_view)> emit_;
  chat::AnswerPart shown_ = chat::AnswerPart::answer;
  bool is_dim_ = false;
  bool has_late_end_ = false;  // of reasoning that was shown as an answer
  chat::ReasoningSplitter splitter_;
};

}  // namespace lamina::cli
