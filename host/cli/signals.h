// Requests from outside to stop or to save: what a long command looks at between its steps.
#pragma once

namespace lamina::cli {

// From now on SIGINT, SIGTERM and SIGHUP ask the command to stop at the next chance, which it says
// on stderr; a second one of them ends the process at once with 128 + its number. SIGHUP stays
// ignored where the parent ignored it (nohup). SIGUSR1 asks for a checkpoint. [main thread, once]
void catch_stop_signals();

// The signal that asked to stop; 0 for none. [any thread]
int stop_signal();

// True once after each SIGUSR1. [one thread]
bool take_save_request();

}  // namespace lamina::cli
