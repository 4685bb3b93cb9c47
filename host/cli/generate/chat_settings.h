// What can be set in a chat: options of the sampler and of the display.
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
  std::int64_t vocab_size = 0;  // of the model
  chat::FormOptions form;
  bool stats = false;
  AnswerStyle style = {};
  std::optional<chat::ReasoningMarks> marks = {};  // absent: those of the model
};

// "temp 0.5", "thinking off". A UserError (class usage) that lists what there is, for a name or a
// value that is wrong.
void change_setting(ChatSettings& settings, std::string_view text);
// One line per setting, with its value.
std::string list_settings(const ChatSettings& settings);

}  // namespace lamina::cli
