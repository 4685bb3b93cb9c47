// lamina completion bash: prints a completion script generated from the parser's declarations.
#include <fmt/format.h>

#include "cli/shell/commands.h"
#include "cli/shell/parse.h"

namespace lamina::cli {
namespace {

std::string option_words(const Command* command) {
  std::string out;
  auto add = [&out](const std::vector<Option>& options) {
    for (const Option& option : options) {
      out += (out.empty() ? "--" : " --") + option.key.name;
      if (option.negatable) out += " --no-" + option.key.name;
    }
  };
  if (command) add(command->options);
  add(global_options());
  return out;
}

// The first words of all commands, or the second words of a group, separated by spaces.
std::string command_words(const std::string& prefix) {
  std::string out, last;
  for (const Command& command : all_commands()) {
    if (!command.name.starts_with(prefix)) continue;
    std::string word = command.name.substr(prefix.size());
    word = word.substr(0, word.find(' '));
    if (word != last) out += (out.empty() ? "" : " ") + word;
    last = word;
  }
  return out;
}

std::string bash_script() {
  std::string cases, groups, last_group;
  for (const Command& command : all_commands()) {
    auto space = command.name.find(' ');
    cases += fmt::format("    \"{}\") words=\"{}\" ;;\n",
                         space == std::string::npos ? command.name + " *" : command.name,
                         option_words(&command));
    std::string group = command.name.substr(0, space);
    if (space != std::string::npos && group != last_group)
      groups += fmt::format("    {}) words=\"{}\" ;;\n", group, command_words(group + " "));
    last_group = group;
  }
  // Quoted patterns of `case` match literally, so the star must be outside the quotes.
  for (auto at = cases.find(" *\")"); at != cases.npos; at = cases.find(" *\")", at))
    cases.replace(at, 4, " \"*)");
  return fmt::format(R"(# bash completion for lamina; install: lamina completion bash >
# ~/.local/share/bash-completion/completions/lamina
_lamina() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} first=${{COMP_WORDS[1]}} second=${{COMP_WORDS[2]}} words=""
  if [[ $COMP_CWORD == 1 ]]; then
    words="{} help"
  elif [[ $COMP_CWORD == 2 && $current != -* ]]; then
    case $first in
    help) words="{}" ;;
{}    esac
  fi
  if [[ $current == -* ]]; then
    case "$first $second" in
{}    *) words="{}" ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _lamina lamina
)",
                     command_words(""), command_words(""), groups, cases, option_words(nullptr));
}

}  // namespace

Command completion_command() {
  return {.name = "completion",
          .summary = "prints a completion script for a shell",
          .positionals = {{.name = "SHELL", .doc = "bash"}},
          .examples = {"lamina completion bash > ~/.local/share/bash-completion/completions/lamina",
                       "source <(lamina completion bash)"},
          .run = [](const Arguments& arguments, const Device&) {
            if (arguments.positionals[0] != "bash")
              user_error(ExitCode::usage, "completion", "unknown shell '{}'; there is: bash",
                         arguments.positionals[0]);
            print(bash_script());
            return 0;
          }};
}

}  // namespace lamina::cli
