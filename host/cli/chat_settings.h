// What can be set in a chat: options of the sampler and of the display.
#pragma once

#include <string>
#include <string_view>

#include "chat/form.h"
#include "decode/generate.h"

namespace lamina::cli {

struct ChatSettings {
  decode::GenerateOptions generate;
  chat::FormOptions form;
  bool stats = false;
  bool dim_thinking = false;  // where the terminal has colours
};

// "temp 0.5", "thinking off". A UserError (class usage) that lists what there is, for a name or a
// value that is wrong.
void change_setting(ChatSettings& settings, std::string_view text);
// One line per setting, with its value.
std::string list_settings(const ChatSettings& settings);

}  // namespace lamina::cli
