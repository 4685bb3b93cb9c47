// Properties of stdout and stderr, and writing to stdout without losing anything.
#pragma once

#include <string>
#include <string_view>

namespace lamina::cli {

enum class ColorMode { automatic, always, never };

struct Terminal {
  bool is_terminal = false;
  bool color = false;     // escape sequences for colours are allowed
  bool animated = false;  // a line may be repainted
  int columns = 80;       // at least 20
};

// Describes a file descriptor; for stdout, the file that print() writes to. Colour and repainting
// need a terminal other than TERM=dumb and no CI=...; NO_COLOR (not empty) turns colour off,
// CLICOLOR_FORCE (not empty) on; `mode` overrides both.
Terminal describe_terminal(int descriptor, ColorMode mode = ColorMode::automatic);

// Writes all text to stdout and flushes it, as printable_lines() (JSON of JsonWriter is unchanged).
// Throws BrokenPipe; UserError (exit 4) if stdout is closed or its disk is full. [any thread]
void print(std::string_view text);
// Likewise, byte for byte.
void print_bytes(std::string_view bytes);

// Writes text of a model or a template: through print() to a terminal, unless `raw`; else byte for
// byte.
void print_model_text(std::string_view text, bool raw);

// The descriptor that print() writes to: stdout, or the one made by keep_output_apart(). [any
// thread]
int output_descriptor() noexcept;

// From now on, output of all code except print() to stdout is redirected to stderr: plugins and
// libraries must not mix into the result. [main thread, at the start]
void keep_output_apart();

// Opens /dev/null for standard descriptors that the parent closed, so that no file of ours gets
// their numbers; using a closed stdin or stdout still fails. [main thread, at the start]
void repair_standard_descriptors();

}  // namespace lamina::cli
