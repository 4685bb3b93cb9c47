// Finds the command among the words of a command line; arguments.h parses the rest.
#include "cli/shell/parse.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/shell/arguments.h"
#include "core/printable.h"
#include "core/suggest.h"
#include "core/utf8.h"

namespace lamina::cli {
namespace {

// Indices of the words that are neither global options nor their values, up to "--" or the first
// other option.
std::vector<std::size_t> leading_words(const std::vector<std::string>& words) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (words[i].size() < 2 || words[i][0] != '-') {
      out.push_back(i);
      continue;
    }
    const Option* option = find_option(global_options(), words[i]);
    if (!option) break;
    bool value_follows = takes_value(*option) && words[i].find('=') == words[i].npos &&
                         (words[i].starts_with("--") || words[i].size() == 2);
    if (value_follows) ++i;
  }
  return out;
}

bool has_word(const std::vector<std::string>& words, std::initializer_list<std::string_view> any) {
  for (const std::string& word : words) {
    if (word == "--") return false;
    if (std::find(any.begin(), any.end(), word) != any.end()) return true;
  }
  return false;
}

std::vector<std::string> first_words(const std::vector<Command>& commands) {
  std::vector<std::string> out;
  for (const Command& command : commands) {
    std::string word = command.name.substr(0, command.name.find(' '));
    if (out.empty() || out.back() != word) out.push_back(word);
  }
  out.push_back("help");
  return out;
}

std::vector<std::string> second_words(const std::vector<Command>& commands,
                                      const std::string& group) {
  std::vector<std::string> out;
  for (const Command& command : commands)
    if (command.name.starts_with(group + " ")) out.push_back(command.name.substr(group.size() + 1));
  return out;
}

const Command* find_command(const std::vector<Command>& commands, const std::string& name) {
  for (const Command& command : commands)
    if (command.name == name) return &command;
  return nullptr;
}

// Words of other programs, with the command that does the same.
constexpr std::pair<std::string_view, std::string_view> kOtherWords[] = {
    {"ckpt list", "ckpt ls"}, {"evaluate", "eval"},  {"finetune", "train"},
    {"generate", "decode"},   {"pretrain", "train"}, {"perplexity", "eval"},
};

// Returns the commands that the typed words mean exactly: by another name, or without their group.
std::vector<std::string> meant_commands(const std::vector<Command>& commands,
                                        const std::string& typed) {
  for (const auto& [word, command] : kOtherWords)
    if (word == typed) return {std::string(command)};
  std::vector<std::string> out;
  for (const Command& command : commands)
    if (command.name.ends_with(" " + typed)) out.push_back(command.name);
  return out;
}

// `prefix` is "" or a group and a space.
[[noreturn]] void refuse_command(const std::vector<Command>& commands, const std::string& prefix,
                                 const std::string& typed, const std::vector<std::string>& known) {
  const std::vector<std::string> meant = meant_commands(commands, prefix + typed);
  if (!meant.empty())
    refuse_usage(fmt::format("unknown command '{}{}'", prefix, printable(typed)),
                 {fmt::format("did you mean `lamina {}`?", fmt::join(meant, "` or `lamina "))});
  std::string nearest = nearest_name(typed, known);
  std::string note = nearest.empty() ? "see `lamina --help`"
                                     : fmt::format("did you mean `lamina {}{}`?", prefix, nearest);
  if (prefix.empty() && find_option(global_options(), "--" + typed))
    note = fmt::format("did you mean `lamina --{}`?", typed);
  if (nearest.empty() && !prefix.empty())
    note = fmt::format("there are: {}", fmt::join(known, ", "));
  refuse_usage(fmt::format("unknown command '{}{}'", prefix, printable(typed)), {note});
}

// Sets request.command or request.group; returns the number of `leading` words that name it.
std::size_t choose_command(const std::vector<Command>& commands,
                           const std::vector<std::string>& names, Request& request) {
  if (names.empty()) return 0;
  if (names.size() > 1)
    if (const Command* found = find_command(commands, names[0] + " " + names[1]))
      return request.command = found, 2;
  if (const Command* found = find_command(commands, names[0])) return request.command = found, 1;
  std::vector<std::string> second = second_words(commands, names[0]);
  if (second.empty()) refuse_command(commands, "", names[0], first_words(commands));
  if (names.size() > 1) refuse_command(commands, names[0] + " ", names[1], second);
  request.group = names[0];
  return 1;
}

}  // namespace

Request parse_command_line(const std::vector<Command>& commands,
                           const std::vector<std::string>& words) {
  Request request;
  request.json = has_word(words, {"--json"});
  bool help = has_word(words, {"--help", "-h"});
  for (const std::string& word : words)
    if (find_invalid_utf8(word) != word.npos)
      refuse_usage(fmt::format("argument '{}' is not UTF-8", printable(word)), {});

  std::vector<std::size_t> leading = leading_words(words);
  std::vector<std::string> names;
  for (std::size_t i : leading) names.push_back(words[i]);
  if (!names.empty() && names[0] == "help") help = true, names.erase(names.begin());
  if (help) {
    request.kind = Request::Kind::help;
    choose_command(commands, names, request);
    return request;
  }
  if (has_word(words, {"--version"})) {
    request.kind = Request::Kind::version;
    return request;
  }
  std::size_t used = choose_command(commands, names, request);
  if (!request.command) {
    // Not a command, but perhaps a mistyped option.
    for (const std::string& word : words)
      if (names.empty() && word.size() > 1 && word[0] == '-' &&
          !find_option(global_options(), word))
        refuse_option(global_options(), word);
    return request;
  }
  std::vector<std::string> rest = words;
  for (std::size_t i = used; i-- > 0;)
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(leading[i]));
  request.kind = Request::Kind::run;
  request.arguments = parse_arguments(*request.command, std::move(rest));
  return request;
}

}  // namespace lamina::cli
