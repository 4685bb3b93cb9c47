// Writes lamina/sdk/op_options.h from ops.def: the attributes of every op as members of a struct,
// and a function that collects them.
//
//   lamina_generate_options FILE           # writes FILE
//   lamina_generate_options FILE --check   # exit code 1 if FILE is not up to date
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "lamina/names.h"
#include "lamina/sdk/op_rows.h"

namespace {

using namespace lamina::sdk;

constexpr std::string_view kHead =
    "// Generated from ops.def; `ninja sdk_options_update` writes it again.\n"
    "//\n"
    "// LAMINA_<OP>_OPTIONS: the attributes of an op as members of a struct, with the defaults of\n"
    "// ops.def. <op>_attrs(options): the attributes of any struct with these members.\n"
    "#pragma once\n\n"
    "// clang-format off\n"
    "#include \"lamina/sdk/emit.h\"\n\n"
    "#pragma GCC visibility push(hidden)\n"
    "namespace lamina::sdk {\n";

std::string upper(std::string_view name) {
  std::string out(name);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

// The type of a member, its default, and the function of Attrs that adds it.
struct Member {
  std::string type, fallback, add;
};
Member member_of(std::string_view word) {
  const std::string_view rest =
      word.substr(word.find(':') + 1, word.find('@') - word.find(':') - 1);
  const std::size_t equals = rest.find('=');
  const std::string_view kind = rest.substr(0, equals);
  const std::string given(equals == rest.npos ? std::string_view() : rest.substr(equals + 1));
  if (kind == "i") return {"std::int64_t", given.empty() ? "0" : given, "integer"};
  if (kind == "b") return {"bool", given == "1" ? "true" : "false", "flag"};
  if (kind == "f") return {"double", given.empty() ? "0" : given, "number"};
  if (kind == "s") return {"std::string_view", "\"" + given + "\"", "text"};
  if (kind == "il") return {"std::vector<std::int64_t>", "{}", "integers"};
  return {"std::vector<double>", "{}", "numbers"};
}

std::string options_of(const OpRow& row) {
  std::string members, adds;
  for (std::string_view rest = row.attributes; !rest.empty();) {
    const std::string_view word = take_word(rest);
    const std::string name(word.substr(0, word.find(':')));
    const Member member = member_of(word);
    members += " \\\n  " + member.type + " " + name + " = " + member.fallback + ";";
    adds += "\n      ." + member.add + "(\"" + name + "\", o." + name + ")";
  }
  const std::string name(row.name);
  return "\n#define LAMINA_" + upper(name) + "_OPTIONS" + members +
         "\ntemplate <class Options>\nAttrs<Op::" + name + "> " + name +
         "_attrs(const Options& o) {\n  Attrs<Op::" + name + "> attrs;\n  attrs" + adds +
         ";\n  return attrs;\n}\n";
}

}  // namespace

int main(int argc, char** argv) {
  const bool check = argc == 3 && std::string_view(argv[2]) == "--check";
  if (argc != 2 && !check) {
    std::fputs("usage: lamina_generate_options FILE [--check]\n", stderr);
    return 2;
  }
  std::string text(kHead);
  for (const OpRow& row : kOpRows)
    if (!row.attributes.empty()) text += options_of(row);
  text += "\n}  // namespace lamina::sdk\n#pragma GCC visibility pop\n";
  if (!check) {
    std::ofstream out(argv[1]);
    out << text;
    out.close();
    return out.good() ? 0 : 1;
  }
  std::ifstream in(argv[1]);
  if (std::string(std::istreambuf_iterator<char>(in), {}) == text) return 0;
  std::fprintf(stderr, "%s is not up to date: ninja sdk_options_update\n", argv[1]);
  return 1;
}
