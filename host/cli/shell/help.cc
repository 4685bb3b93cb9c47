// Builds help pages from the declarations of commands and options.
#include "cli/shell/help.h"

#include <fmt/format.h>

#include "cli/shell/exit_codes.h"
#include "cli/shell/parse.h"
#include "cli/shell/text.h"
#include "config/listing.h"

namespace lamina::cli {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

std::string left_side(const Option& option) {
  std::string out = option.short_name ? fmt::format("-{}, ", option.short_name) : "    ";
  out += option.negatable ? "--[no-]" : "--";
  out += option.key.name;
  if (!option.value.empty()) out += " " + option.value;
  return out;
}

std::string right_side(const Option& option) {
  const Key& key = option.key;
  std::string out = key.doc;
  const auto says = [&out](std::string_view words) { return out.find(words) != out.npos; };
  if (option.repeatable && !option.value.empty() && !says("may be repeated") &&
      !says("several times"))
    out += " May be repeated.";
  if (key.type == Type::boolean && !key.preset) return out;
  std::string limits = config::limits_text(key);
  std::string preset = key.preset || !key.preset_text.empty() ? config::preset_text(key) : "";
  if (!limits.empty()) out += fmt::format(" {}{}.", key.choices.empty() ? "Limits: " : "", limits);
  if (!preset.empty()) out += fmt::format(" Default: {}.", preset);
  for (std::size_t i = 0; i < key.aliases.size(); ++i)
    out += fmt::format("{}--{}{}", i == 0 ? " Also " : ", ", key.aliases[i],
                       i + 1 == key.aliases.size() ? "." : "");
  return out;
}

std::string option_rows(const std::vector<Option>& options) {
  Rows rows;
  for (const Option& option : options) rows.emplace_back(left_side(option), right_side(option));
  return two_columns(rows);
}

std::string command_rows(const std::vector<Command>& commands, std::string_view prefix) {
  Rows rows;
  for (const Command& command : commands)
    if (command.name.starts_with(prefix)) rows.emplace_back(command.name, command.summary);
  return two_columns(rows);
}

std::string exit_code_rows() {
  Rows rows;
  for (const ExitCodeMeaning& row : exit_codes())
    rows.emplace_back(fmt::format("{:>3}", static_cast<int>(row.code)), std::string(row.meaning));
  return two_columns(rows);
}

}  // namespace

std::string usage_line(const Command& command) {
  std::string out = "usage: lamina " + command.name;
  for (const Positional& positional : command.positionals) {
    std::string name = positional.name + (positional.repeatable ? "..." : "");
    out += positional.required ? " " + name : " [" + name + "]";
  }
  return out + " [options]";
}

std::string program_help(const std::vector<Command>& commands) {
  return "lamina trains and decodes decoder-only language models; families are plugins.\n"
         "\nusage: lamina COMMAND [options]\n"
         "\ncommands:\n" +
         command_rows(commands, "") + "\noptions of every command:\n" +
         option_rows(global_options()) + "\nexit codes:\n" + exit_code_rows() +
         "\nexamples:\n"
         "  lamina train configs/train/quickstart.toml\n"
         "  lamina decode -m build/quickstart/run -p \"In the beginning\"\n"
         "  lamina help train\n";
}

std::string group_help(const std::vector<Command>& commands, const std::string& group) {
  return fmt::format(
      "usage: lamina {} COMMAND [options]\n\ncommands:\n{}\n`lamina {} COMMAND -h` "
      "describes one.\n",
      group, command_rows(commands, group + " "), group);
}

std::string command_help(const Command& command) {
  std::string out = usage_line(command) + "\n\n" + wrap(command.summary, 0) + "\n";
  if (!command.details.empty()) out += fmt::format("\n{}\n", wrap(command.details, 0));
  if (!command.examples.empty()) out += "\nexamples:\n";
  for (const std::string& example : command.examples) out += fmt::format("  {}\n", example);
  if (!command.positionals.empty()) {
    Rows rows;
    for (const Positional& positional : command.positionals)
      rows.emplace_back(positional.name, positional.doc);
    out += "\narguments:\n" + two_columns(rows);
  }
  if (!command.options.empty()) out += "\noptions:\n" + option_rows(command.options);
  return out + "\noptions of every command:\n" + option_rows(global_options());
}

}  // namespace lamina::cli
