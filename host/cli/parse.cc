// The command line in two steps: find the command among the words, then let Boost.Program_options
// take its options apart; types and limits are checked by the same code as keys of run files.
#include "cli/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>

#include "core/error.h"
#include "core/read_file.h"
#include "core/suggest.h"
#include "core/utf8.h"

namespace lamina::cli {

namespace po = boost::program_options;

namespace {

[[noreturn]] void refuse(std::string what, std::vector<std::string> notes) {
  throw UserError(ExitCode::usage, {"", std::move(what), std::move(notes)});
}

bool takes_value(const Option& option) { return option.key.type != Type::boolean; }

std::string shown(const Option& option) { return "--" + option.key.name; }

// The option that a word names, by its long or short name, with or without a value behind it.
const Option* find_option(const std::vector<Option>& options, std::string_view word) {
  if (word.starts_with("--")) {
    std::string name(word.substr(2, word.find('=') - 2));
    std::replace(name.begin(), name.end(), '_', '-');
    for (const Option& option : options) {
      if (option.key.name == name) return &option;
      if (option.negatable && "no-" + option.key.name == name) return &option;
      for (const std::string& alias : option.key.aliases)
        if (alias == name) return &option;
    }
  } else if (word.size() >= 2 && word[0] == '-') {
    for (const Option& option : options)
      if (option.short_name == word[1]) return &option;
  }
  return nullptr;
}

// Indices of the words that are neither global options nor their values, up to "--" or the first
// option that is not global.
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

// `prefix` is "" or a group and a space.
[[noreturn]] void refuse_command(const std::string& prefix, const std::string& typed,
                                 const std::vector<std::string>& known) {
  std::string nearest = nearest_name(typed, known);
  std::string note = nearest.empty() ? "see `lamina --help`"
                                     : fmt::format("did you mean `lamina {}{}`?", prefix, nearest);
  if (nearest.empty() && !prefix.empty())
    note = fmt::format("there are: {}", fmt::join(known, ", "));
  refuse(fmt::format("unknown command '{}{}'", prefix, printable(typed)), {note});
}

// Sets request.command or request.group; returns how many of `leading` name it.
std::size_t choose_command(const std::vector<Command>& commands,
                           const std::vector<std::string>& names, Request& request) {
  if (names.empty()) return 0;
  if (names.size() > 1)
    if (const Command* found = find_command(commands, names[0] + " " + names[1]))
      return request.command = found, 2;
  if (const Command* found = find_command(commands, names[0])) return request.command = found, 1;
  std::vector<std::string> second = second_words(commands, names[0]);
  if (second.empty()) refuse_command("", names[0], first_words(commands));
  if (names.size() > 1) refuse_command(names[0] + " ", names[1], second);
  request.group = names[0];
  return 1;
}

// A number as typed in plain decimal form, else the text itself for the error message.
Value typed_value(const Option& option, const std::string& text) {
  const char *first = text.data(), *last = text.data() + text.size();
  if (option.key.type == Type::integer || option.key.type == Type::number) {
    std::int64_t integer = 0;
    if (auto [end, error] = std::from_chars(first, last, integer);
        error == std::errc() && end == last)
      return integer;
    double number = 0;
    if (auto [end, error] = std::from_chars(first, last, number);
        error == std::errc() && end == last)
      return number;
  }
  return text;
}

Value checked_value(const Option& option, const std::string& text) {
  if (option.key.type == Type::string && option.key.choices.empty()) return text;
  auto checked = config::check_value(option.key, shown(option), typed_value(option, text), text);
  if (auto* wrong = std::get_if<ErrorText>(&checked))
    refuse(std::move(wrong->what), std::move(wrong->notes));
  return std::get<Value>(std::move(checked));
}

void describe(po::options_description& out, const Option& option) {
  // Values are taken as text and checked later; composing lets us word the error about two.
  auto add = [&](const std::string& name, bool with_value) {
    if (with_value)
      out.add_options()(name.c_str(), po::value<std::vector<std::string>>()->composing(), "");
    else
      out.add_options()(name.c_str(),
                        po::value<std::vector<std::string>>()->composing()->zero_tokens(), "");
  };
  std::string name = option.key.name;
  if (option.short_name) name += fmt::format(",{}", option.short_name);
  add(name, takes_value(option));
  for (const std::string& alias : option.key.aliases) add(alias, takes_value(option));
  if (option.negatable) add("no-" + option.key.name, false);
}

std::vector<std::string> option_words(const std::vector<Option>& options) {
  std::vector<std::string> out;
  for (const Option& option : options) {
    out.push_back("--" + option.key.name);
    for (const std::string& alias : option.key.aliases) out.push_back("--" + alias);
    if (option.negatable) out.push_back("--no-" + option.key.name);
  }
  return out;
}

[[noreturn]] void refuse_option(const std::vector<Option>& options, const std::string& word) {
  std::string typed = word.substr(0, word.find('='));
  std::string nearest = nearest_name(typed, option_words(options));
  refuse(fmt::format("unknown option '{}'", printable(typed)),
         {nearest.empty() ? "-h lists the options" : fmt::format("did you mean '{}'?", nearest)});
}

}  // namespace

// Builds Arguments: the only code that writes their private parts.
class CommandLine {
 public:
  explicit CommandLine(const Command& command) : command_(command), options_(command.options) {
    options_.insert(options_.end(), global_options().begin(), global_options().end());
    for (const Option& option : options_) {
      describe(description_, option);
      if (option.key.preset) out_.presets_.emplace(option.key.name, *option.key.preset);
    }
    description_.add_options()(kPositional, po::value<std::vector<std::string>>(), "");
  }

  Arguments parse(std::vector<std::string> words) {
    prepare(words);
    for (const po::option& option : take_apart(words))
      option.string_key == kPositional ? add_positional(option) : add_option(option);
    check_options();
    check_positionals();
    set_globals();
    return std::move(out_);
  }

 private:
  static constexpr const char* kPositional = " argument";  // no user can type this name

  // Spells option names with dashes. Refuses an option in the place of a value, which the library
  // would take for the value; --stop=--loud says that it is one.
  void prepare(std::vector<std::string>& words) const {
    const Option* waiting = nullptr;
    for (std::string& word : words) {
      if (word == "--") break;
      const Option* option = find_option(options_, word);
      bool exact = word.starts_with("--") || word.size() == 2;
      if (waiting && option && exact) break;
      if (waiting || !option || !exact) {
        waiting = nullptr;
        continue;
      }
      auto name_end = std::min(word.find('='), word.size());
      if (word.size() > 2)
        std::replace(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(name_end), '_', '-');
      if (takes_value(*option) && name_end == word.size()) waiting = option;
    }
    if (waiting) refuse_missing_value(*waiting);
  }

  [[noreturn]] static void refuse_missing_value(const Option& option) {
    refuse(fmt::format("option '{}' needs {}", shown(option),
                       option.value.empty() ? "a value" : option.value),
           {});
  }

  std::vector<po::option> take_apart(const std::vector<std::string>& words) {
    using namespace po::command_line_style;
    po::positional_options_description positional;
    positional.add(kPositional, -1);
    try {
      return po::command_line_parser(words)
          .options(description_)
          .positional(positional)
          .style(allow_long | allow_short | allow_dash_for_short | long_allow_adjacent |
                 long_allow_next | short_allow_adjacent | short_allow_next | allow_sticky)
          .run()
          .options;
    } catch (const po::unknown_option& e) {
      refuse_option(options_, e.get_option_name());
    } catch (const po::error_with_option_name& e) {
      const Option* option = find_option(options_, e.get_option_name());
      if (option && !takes_value(*option))
        refuse(fmt::format("option '{}' takes no value", e.get_option_name()), {});
      if (option) refuse_missing_value(*option);
      refuse(e.what(), {"-h shows the usage"});
    } catch (const po::error& e) {
      refuse(e.what(), {"-h shows the usage"});
    }
  }

  void add_positional(const po::option& option) {
    for (const std::string& value : option.value) out_.positionals.push_back(value);
  }

  void add_option(const po::option& parsed) {
    const Option* option = find_option(options_, "--" + parsed.string_key);
    LAMINA_ASSERT(option != nullptr);
    std::vector<Value>& values = out_.given_[option->key.name];
    if (!values.empty() && !option->repeatable)
      refuse(fmt::format("option '{}' is given twice", shown(*option)), {"keep one"});
    if (takes_value(*option))
      values.push_back(checked_value(*option, parsed.value.at(0)));
    else
      values.push_back(parsed.string_key != "no-" + option->key.name);
  }

  void check_options() const {
    for (const Option& option : options_)
      if (option.key.required && !out_.given_.contains(option.key.name))
        refuse(fmt::format("missing option '{} {}'", shown(option), option.value),
               {option.key.doc, fmt::format("see `lamina {} --help`", command_.name)});
  }

  void check_positionals() {
    std::size_t required = 0;
    for (const Positional& positional : command_.positionals) required += positional.required;
    std::size_t count = out_.positionals.size();
    if (count < required) {
      const Positional& missing = command_.positionals[count];
      refuse(fmt::format("missing {}", missing.name),
             {missing.doc, fmt::format("see `lamina {} --help`", command_.name)});
    }
    bool unlimited = !command_.positionals.empty() && command_.positionals.back().repeatable;
    if (count > command_.positionals.size() && !unlimited)
      refuse(fmt::format("superfluous argument '{}'",
                         printable(out_.positionals[command_.positionals.size()])),
             {fmt::format("see `lamina {} --help`", command_.name)});
  }

  void set_globals() {
    Globals& globals = out_.globals;
    globals.quiet = out_.flag("quiet");
    if (auto given = out_.given_.find("verbose"); given != out_.given_.end())
      globals.verbosity = static_cast<int>(given->second.size());
    const std::string& color = out_.text("color");
    globals.color = color == "always"  ? ColorMode::always
                    : color == "never" ? ColorMode::never
                                       : ColorMode::automatic;
    if (out_.given("threads")) globals.threads = static_cast<int>(out_.integer("threads"));
    globals.plugins = out_.texts("plugin");
    for (std::string paths : out_.texts("plugin-path"))
      for (std::size_t colon = 0; colon != paths.npos; paths.erase(0, colon + 1)) {
        colon = paths.find(':');
        if (std::string path = paths.substr(0, colon); !path.empty())
          globals.plugin_folders.push_back(path);
        if (colon == paths.npos) break;
      }
  }

  const Command& command_;
  std::vector<Option> options_;
  po::options_description description_;
  Arguments out_;
};

const Value& Arguments::value(std::string_view name) const {
  if (auto given = given_.find(name); given != given_.end()) return given->second.back();
  auto preset = presets_.find(name);
  LAMINA_ASSERT(preset != presets_.end());
  return preset->second;
}

bool Arguments::flag(std::string_view name) const {
  if (!given(name) && !presets_.contains(name)) return false;
  return std::get<bool>(value(name).data);
}

std::int64_t Arguments::integer(std::string_view name) const {
  return std::get<std::int64_t>(value(name).data);
}

double Arguments::number(std::string_view name) const { return std::get<double>(value(name).data); }

const std::string& Arguments::text(std::string_view name) const {
  return std::get<std::string>(value(name).data);
}

std::vector<std::string> Arguments::texts(std::string_view name) const {
  std::vector<std::string> out;
  if (auto given = given_.find(name); given != given_.end())
    for (const Value& value : given->second) out.push_back(std::get<std::string>(value.data));
  return out;
}

const std::vector<Option>& global_options() {
  static const std::vector<Option> options = {
      {.key = {.name = "help", .type = Type::boolean, .doc = "Show this help."}, .short_name = 'h'},
      {.key = {.name = "version", .type = Type::boolean, .doc = "Show the version."}},
      {.key = {.name = "quiet", .type = Type::boolean, .doc = "Warnings and errors only."},
       .short_name = 'q'},
      {.key = {.name = "verbose", .type = Type::boolean, .doc = "Say more on stderr."},
       .short_name = 'v',
       .repeatable = true},
      {.key = {.name = "color",
               .type = Type::string,
               .preset = Value("auto"),
               .choices = {"auto", "always", "never"},
               .doc = "When to colour messages; NO_COLOR=1 also turns colour off."},
       .value = "WHEN"},
      {.key = {.name = "threads",
               .type = Type::integer,
               .preset_text = "all that the machine allows",
               .min = 1,
               .max = 4096,
               .doc = "Threads of the CPU backend."},
       .short_name = 't',
       .value = "N"},
      {.key = {.name = "plugin",
               .type = Type::string,
               .doc = "Load this plugin first; may be repeated."},
       .value = "FILE",
       .repeatable = true},
      {.key = {.name = "plugin-path",
               .type = Type::string,
               .doc = "Look for plugins here before LAMINA_PLUGIN_PATH; separate with colons."},
       .value = "DIRS",
       .repeatable = true},
  };
  return options;
}

Option json_option() {
  return {.key = {.name = "json",
                  .type = Type::boolean,
                  .doc = "Print one JSON object on stdout in place of text."}};
}

Option set_option() {
  return {.key = {.name = "set",
                  .type = Type::string,
                  .doc = "Override a key of the run file, eg: --set train.steps=100; may be "
                         "repeated."},
          .value = "KEY=VALUE",
          .repeatable = true};
}

Request parse_command_line(const std::vector<Command>& commands,
                           const std::vector<std::string>& words) {
  Request request;
  request.json = has_word(words, {"--json"});
  bool help = has_word(words, {"--help", "-h"});
  for (const std::string& word : words)
    if (find_invalid_utf8(word) != word.npos)
      refuse(fmt::format("argument '{}' is not UTF-8", printable(word)), {});

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
  request.arguments = CommandLine(*request.command).parse(rest);
  return request;
}

}  // namespace lamina::cli
