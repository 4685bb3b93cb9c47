// Settings of a chat: options of the sampler and of the display.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "chat/form.h"
#include "chat/reasoning.h"
#include "cli/generate/answer_display.h"
#include "decode/generate.h"

namespace lamina::cli {

struct ChatSettings {
  decode::GenerateOptions generate;
  std::int64_t vocab_size = 0;  // the model's
  chat::FormOptions form;
  bool stats = false;
  AnswerStyle style = {};
  std::optional<chat::ReasoningMarks> marks = {};  // absent: the model's marks
};

// `text` is "temp 0.5" or "thinking off". Throws UserError (class usage), which lists the choices,
// for an unknown name or a wrong value.
void change_setting(ChatSettings& settings, std::string_view text);
// One line per setting, with its value.
std::string list_settings(const ChatSettings& settings);

}  // namespace lamina::cli
