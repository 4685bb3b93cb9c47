// Reads the input of a chat: messages, and commands after "/".
#pragma once

#include "cli/generate/chat_session.h"

namespace lamina::cli {

// Returns at the end of the input. Errors are shown to an interactive user and the chat continues;
// otherwise they are thrown.
void run_chat(ChatSession& session, bool interactive);

}  // namespace lamina::cli
