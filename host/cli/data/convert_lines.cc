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

void convert(std::istream& in, const std::string& file,
             const std::function<std::string(const JsonValue&)>& line_of) {
  std::string out;
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty()) continue;
    const JsonDocument document =
        JsonDocument::parse(std::move(line), fmt::format("{}:{}", file, number),
                            {.code = ExitCode::data, .max_bytes = kMaxTextBytes, .part = "line"});
    out += line_of(document.root()) + "\n";
    if (out.size() > kBatchBytes) print_bytes(std::exchange(out, {}));
  }
  if (in.bad()) user_error(ExitCode::data, file, "cannot be read");
  print_bytes(out);
}

}  // namespace

void convert_lines(const std::string& file,
                   const std::function<std::string(const JsonValue&)>& line_of) {
  if (file == "-") {
    check_stdin(ExitCode::data);
    convert(std::cin, "stdin", line_of);
    return check_stdin(ExitCode::data);
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) static_cast<void>(read_file(file, ExitCode::data));  // throws the reason
  convert(in, file, line_of);
}

}  // namespace lamina::cli
