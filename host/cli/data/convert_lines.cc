#include "cli/data/convert_lines.h"

#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <utility>

#include "cli/shell/terminal.h"
#include "core/error.h"
#include "core/read_file.h"

namespace lamina::cli {
namespace {

// Output is collected up to this size before it is written.
constexpr std::size_t kBatchBytes = std::size_t{1} << 20;

// Adds lines to `out`, and prints them when they are many.
void convert(std::istream& in, const std::string& file,
             const std::function<std::string(const JsonValue&)>& line_of, std::string& out) {
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const JsonDocument document =
        JsonDocument::parse(std::move(line), fmt::format("{}:{}", file, number),
                            {.code = ExitCode::data,
                             .max_bytes = kMaxTextBytes,
                             .infinite_numbers = true,
                             .part = "line"});
    out += line_of(document.root()) + "\n";
    if (out.size() > kBatchBytes) print_bytes(std::exchange(out, {}));
  }
  if (in.bad()) user_error(ExitCode::data, file, "cannot be read");
}

}  // namespace

void convert_lines(const std::string& file,
                   const std::function<std::string(const JsonValue&)>& line_of) {
  const bool is_stdin = file == "-";
  std::ifstream named;
  if (is_stdin) {
    check_stdin(ExitCode::data);
  } else {
    named.open(file, std::ios::binary);
    if (!named) static_cast<void>(read_file(file, ExitCode::data));  // throws the reason
  }
  std::string out;
  try {
    convert(is_stdin ? std::cin : named, is_stdin ? "stdin" : file, line_of, out);
    if (is_stdin) check_stdin(ExitCode::data);
  } catch (const UserError&) {
    print_bytes(out);  // of the lines before
    throw;
  }
  print_bytes(out);
}

}  // namespace lamina::cli
