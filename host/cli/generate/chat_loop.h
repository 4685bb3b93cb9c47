// What is typed into a chat: messages, and commands after "/".
#pragma once

#include "cli/generate/chat_session.h"

namespace lamina::cli {

// Until the end of the input. Errors: of a person at a terminal they are shown, and the chat goes
// on; else they are thrown.
void run_chat(ChatSession& session, bool interactive);

}  // namespace lamina::cli
