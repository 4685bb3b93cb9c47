// Requests from outside to stop or to save: what a long command looks at between its steps.
#pragma once

namespace lamina::cli {

// From now on SIGUSR1 and SIGUSR2 ask for a checkpoint and end no process, also where no command
// looks at them. [main thread, first thing]
void catch_save_signals();

// From now on SIGINT, SIGTERM and SIGHUP ask the command to stop at the next chance, which it says
// on stderr; a second one of them ends the process at once with 128 + its number. Where the parent
// ignored SIGTERM or SIGHUP (nohup) they stay ignored; where it ignored SIGINT (`command &` in a
// script) Ctrl-C does, and only a SIGINT that a process sends counts. [main thread, once]
void catch_stop_signals();

// The signal that asked to stop; 0 for none. [any thread]
int stop_signal();

// Thrown where a command is left between its parts, and caught by the command.
struct StopAsked {};
// Throws StopAsked once a signal has asked to stop. [any thread]
void end_if_asked();

// From now on SIGINT is only noted, however often it comes: what Ctrl-C means during an answer of a
// chat. [main thread, in place of catch_stop_signals()]
void catch_interrupts();

// True once after each SIGINT since the last call. [one thread]
bool take_interrupt();

// True once after each SIGUSR1 or SIGUSR2. [one thread]
bool take_save_request();

}  // namespace lamina::cli
