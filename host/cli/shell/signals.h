// Requests by signals to stop or to save, which a long command checks between its steps.
#pragma once

namespace lamina::cli {

// From now on SIGUSR1 and SIGUSR2 request a checkpoint and never end the process, even if the
// command does not check for them. [main thread, first thing]
void catch_save_signals();

// If the parent ignored SIGINT (`command &` in a script): from now on a SIGINT that a process sent
// ends this one at once, with 130. Ctrl-C stays ignored. [main thread, first thing]
void end_on_sent_interrupts();

// From now on SIGINT, SIGTERM and SIGHUP ask the command to stop soon, with a message on stderr; a
// second signal ends the process at once with 128 + its number. SIGTERM and SIGHUP stay ignored if
// the parent ignored them (nohup). If the parent ignored SIGINT, only a SIGINT sent by a process
// counts. [main thread, once]
void catch_stop_signals();

// The signal that requested the stop; 0 for none. [any thread]
int stop_signal();

// Thrown to leave a command between its parts; the command catches it.
struct StopAsked {};
// Throws StopAsked once a stop was requested. [any thread]
void end_if_asked();

// From now on SIGINT is only recorded: Ctrl-C during an answer of a chat. If the parent ignored it,
// only one that a process sends counts. [main thread, instead of catch_stop_signals()]
void catch_interrupts();

// True once after each SIGINT since the last call. [one thread]
bool take_interrupt();

// True once after each SIGUSR1 or SIGUSR2. [one thread]
bool take_save_request();

}  // namespace lamina::cli
