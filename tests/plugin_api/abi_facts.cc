// Prints the contract as facts, one per line: offsets of fields, constants, least sizes,
// declarations without their comments, and the parts of each core op's row. Additions do not change
// existing facts; a test compares the candidate's facts with today's.
//
//   lamina_abi_facts HEADER...
#include <cctype>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>

#include "lamina/ext/auxiliary.h"
#include "lamina/ext/custom_ops.h"
#include "lamina/ext/export.h"
#include "lamina/ext/layer_sharing.h"
#include "lamina/ext/mtp.h"
#include "lamina/ext/time_region.h"
#include "lamina/names.h"
#include "lamina/sdk/op_rows.h"

namespace {

void fact(std::string_view kind, const std::string& text) {
  std::printf("%.*s %s\n", static_cast<int>(kind.size()), kind.data(), text.c_str());
}

std::string read(const char* path) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "%s cannot be read\n", path);
    std::exit(1);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string without_comments(std::string text) {
  for (std::size_t at; (at = text.find("/*")) != text.npos;)
    text.replace(at, text.find("*/", at) + 2 - at, " ");
  return text;
}

// Prints constants and least sizes; returns the rest, without preprocessor lines.
std::string print_preprocessor(const std::string& text) {
  static const std::regex constant("#define (LAMINA_[A-Z0-9_]+) (\"[^\"]*\"|-?[0-9]+u?) *");
  static const std::regex least("X\\((lamina_[a-z_]+_t), ([0-9]+)\\)");
  static const std::regex row(" *LAMINA_STATE_KIND\\(.*\\) *");
  std::string rest, line;
  std::smatch match;
  bool continued = false;
  for (std::istringstream lines(text); std::getline(lines, line);) {
    for (std::sregex_iterator it(line.begin(), line.end(), least), end; it != end; ++it)
      fact("least", (*it)[1].str() + " " + (*it)[2].str());
    const bool is_directive = continued || line.starts_with('#');
    continued = is_directive && line.ends_with('\\');
    if (std::regex_match(line, match, constant) && match[1] != "LAMINA_ABI_MINOR" &&
        match[1] != "LAMINA_ABI_CANDIDATE")
      fact("constant", match[1].str() + " " + match[2].str());
    if (std::regex_match(line, row)) fact("row", line);
    if (!is_directive) rest += line + "\n";
  }
  return rest;
}

// Prints each declaration of a header; members of a struct with its name.
void print_declarations(const std::string& code) {
  static const std::regex begins("(?:typedef )?struct (lamina_[a-z_]+) ");
  std::string owner, now;
  int depth = 0;
  std::smatch match;
  for (const char c : code) {
    const bool is_space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (c == '{' && owner.empty()) {  // a struct, or `extern "C"`
      if (std::regex_match(now, match, begins)) owner = match[1];
      now.clear();
      continue;
    }
    if (c == '}' && depth == 0) {
      owner.clear(), now.clear();
      continue;
    }
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;  // a union
    if (c != ';' || depth > 0) {
      if (!is_space || (!now.empty() && now.back() != ' ')) now += is_space ? ' ' : c;
      continue;
    }
    if (!now.empty()) fact("declaration", owner + ": " + now);
    now.clear();
  }
}

void print_parts(const std::string& op, std::string_view kind, std::string_view row) {
  std::istringstream words{std::string(row)};
  int number = 0;
  for (std::string word; words >> word;)
    fact("op", op + " " + std::string(kind) + " " + std::to_string(++number) + " " + word);
}

}  // namespace

int main(int argc, char** argv) {
#define LAMINA_STRUCT(name)
#define LAMINA_FIELD(name, field) \
  fact("field", #name "." #field " " + std::to_string(offsetof(struct name, field)));
#include "abi_fields.inc"
  for (int i = 1; i < argc; ++i)
    print_declarations(print_preprocessor(without_comments(read(argv[i]))));
  for (const lamina::sdk::OpRow& row : lamina::sdk::kOpRows) {
    if (row.id >= LAMINA_DRAFT_OPS) continue;
    const std::string op = std::to_string(row.id) + " " + std::string(row.name) + " revision " +
                           std::to_string(row.revision);
    fact("op", op + " since " + std::to_string(row.since));
    print_parts(op, "input", row.inputs);
    print_parts(op, "output", row.outputs);
    print_parts(op, "attribute", row.attributes);
  }
}
