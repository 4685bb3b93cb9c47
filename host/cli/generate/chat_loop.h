// Reads the input of a chat: messages, and commands after "/".
#pragma once

#include <string>
#include <vector>

#include "cli/generate/chat_session.h"

namespace lamina::cli {

// Returns at the end of the input. Errors are shown to an interactive user and the chat continues;
// otherwise they are thrown. `inputs`: files that the command reads, which /save does not replace.
void run_chat(ChatSession& session, bool interactive, std::vector<std::string> inputs);

}  // namespace lamina::cli
