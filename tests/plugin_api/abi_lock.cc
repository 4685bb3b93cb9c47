// Prints the contract as JSON, an item per line. plugin_api/abi has it as of the last change of the
// minor, and a test compares the two.
//
//   lamina_abi_lock layout HEADER...   sizes, places of fields, and the numbers and names of
//   headers lamina_abi_lock ops                the rows of ops.def
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/ext/auxiliary.h"
#include "lamina/ext/custom_ops.h"
#include "lamina/ext/export.h"
#include "lamina/ext/layer_sharing.h"
#include "lamina/ext/mtp.h"
#include "lamina/ext/time_region.h"
#include "lamina/sdk/op_rows.h"

namespace {

class Section {
 public:
  Section(std::string_view name, bool last) : last_(last) {
    std::printf("  \"%.*s\": [", static_cast<int>(name.size()), name.data());
  }
  ~Section() { std::printf("\n  ]%s\n", last_ ? "" : ","); }
  void item(const std::string& text) {
    std::printf("%s\n    %s", first_ ? "" : ",", text.c_str());
    first_ = false;
  }

 private:
  bool first_ = true, last_;
};

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string pair(std::string_view name, std::size_t value) {
  return "{" + quoted(name) + ": " + std::to_string(value) + "}";
}

void print_layout(const std::vector<std::string>& headers) {
  {
    Section sizes("sizes", false);
#define LAMINA_STRUCT(name) sizes.item(pair(#name, sizeof(struct name)));
#define LAMINA_FIELD(name, field)
#include "abi_fields.inc"
  }
  {
    Section fields("fields", false);
#define LAMINA_STRUCT(name)
#define LAMINA_FIELD(name, field) fields.item(pair(#name "." #field, offsetof(struct name, field)));
#include "abi_fields.inc"
  }
  Section names("names", true);
  const std::regex constant("#define (LAMINA_[A-Z0-9_]+) (\"[^\"]*\"|-?[0-9]+u?)( .*)?");
  const std::regex row("LAMINA_STATE_KIND\\(.*");
  for (const std::string& path : headers) {
    std::ifstream file(path);
    if (!file) {
      std::fprintf(stderr, "%s cannot be read\n", path.c_str());
      std::exit(1);
    }
    std::smatch match;
    for (std::string line; std::getline(file, line);)
      if (std::regex_match(line, match, constant) && match[1] != "LAMINA_ABI_MINOR" &&
          match[1] != "LAMINA_ABI_CANDIDATE")
        names.item(quoted(match[1].str() + " = " + match[2].str()));
      else if (std::regex_match(line, row))
        names.item(quoted(line));
  }
}

void print_ops() {
  Section ops("ops", true);
  for (const lamina::sdk::OpRow& row : lamina::sdk::kOpRows)
    ops.item("{\"id\": " + std::to_string(row.id) + ", \"name\": " + quoted(row.name) +
             ", \"revision\": " + std::to_string(row.revision) +
             ", \"since\": " + std::to_string(row.since) + ", \"inputs\": " + quoted(row.inputs) +
             ", \"outputs\": " + quoted(row.outputs) +
             ", \"attributes\": " + quoted(row.attributes) + "}");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string what = arguments.empty() ? "" : arguments[0];
  if (what != "layout" && what != "ops") {
    std::fputs("usage: lamina_abi_lock layout HEADER... | ops\n", stderr);
    return 2;
  }
  std::printf("{\n  \"major\": %u,\n  \"minor\": %u,\n", LAMINA_ABI_MAJOR, LAMINA_ABI_MINOR);
  if (what == "ops")
    print_ops();
  else
    print_layout({arguments.begin() + 1, arguments.end()});
  std::printf("}\n");
}
