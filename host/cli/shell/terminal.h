// What stands at the other end of stdout and stderr, and writing to stdout without losing anything.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace lamina::cli {

enum class ColorMode { automatic, always, never };

struct Terminal {
  bool is_terminal = false;
  bool color = false;     // escape sequences for colours are welcome
  bool animated = false;  // a line may be repainted
  int columns = 80;       // at least 20
};

// Describes a file descriptor; of stdout, the file that print() writes to. Colour and repainting
// need a terminal other than TERM=dumb and no CI=...; NO_COLOR (not empty) turns colour off,
// CLICOLOR_FORCE (not empty) on; `mode` beats both.
Terminal describe_terminal(int descriptor, ColorMode mode = ColorMode::automatic);

// The reader of stdout went away (a pipe into `head`). main() ends quietly with 141.
class BrokenPipe : public std::exception {
 public:
  const char* what() const noexcept override { return "the reader of stdout went away"; }
};

// Writes everything to stdout and flushes, control characters and invalid UTF-8 as \xNN: JSON of
// JsonWriter has neither. Throws BrokenPipe; UserError (exit 4) where stdout is closed or its disk
// is full. [any thread]
void print(std::string_view text);
// Likewise, byte for byte.
void print_bytes(std::string_view bytes);

// Text of a model or a template for a terminal, which obeys control characters: all but line feeds
// and tabs as \xNN, and so are the characters that reverse the direction of text.
std::string terminal_text(std::string_view text);
// Prints such text: as terminal_text() to a terminal, unless `raw`; else byte for byte.
void print_model_text(std::string_view text, bool raw);

// What print() writes to: stdout, or what keep_output_apart() made of it. [any thread]
int output_descriptor() noexcept;

// From now on what anything but print() writes to stdout goes to stderr: what plugins and libraries
// print is no result. [main thread, at the start]
void keep_output_apart();

// Opens /dev/null in place of standard descriptors that the parent closed, so that no file of ours
// gets their numbers; using a closed stdin or stdout still fails. [main thread, at the start]
void repair_standard_descriptors();

}  // namespace lamina::cli
