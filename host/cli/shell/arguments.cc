#include "cli/shell/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <set>

#include "cli/shell/commands.h"
#include "cli/shell/help.h"
#include "cli/shell/parse.h"
#include "cli/shell/shell_word.h"
#include "config/key_paths.h"
#include "config/model_keys.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/suggest.h"

namespace lamina::cli {

namespace po = boost::program_options;

void refuse_usage(std::string what, std::vector<std::string> notes) {
  throw UserError(ExitCode::usage, {"", std::move(what), std::move(notes)});
}

bool takes_value(const Option& option) { return option.key.type != Type::boolean; }

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

namespace {

std::string shown(const Option& option) { return "--" + option.key.name; }

std::vector<std::string> option_words(const std::vector<Option>& options) {
  std::vector<std::string> out;
  for (const Option& option : options) {
    out.push_back("--" + option.key.name);
    for (const std::string& alias : option.key.aliases) out.push_back("--" + alias);
    if (option.negatable) out.push_back("--no-" + option.key.name);
  }
  return out;
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
  auto checked = check_option(option, shown(option), text);
  if (auto* wrong = std::get_if<ErrorText>(&checked))
    refuse_usage(std::move(wrong->what), std::move(wrong->notes));
  return std::get<Value>(std::move(checked));
}

void describe(po::options_description& out, const Option& option) {
  // Values are read as text and checked later; composing lets the code word the error about
  // duplicates.
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

// Returns the longest option with which the typed one begins: "--temp" of "--temperature".
std::string beginning_of(std::string_view typed, const std::vector<std::string>& options) {
  constexpr std::size_t kShortest = 6;  // with both dashes
  std::string best;
  for (const std::string& option : options)
    if (option.size() >= kShortest && option.size() > best.size() && typed.starts_with(option))
      best = option;
  return best;
}

// Returns the option that has all words of the typed one, if there is one only: "--max-new-tokens"
// for "--max-tokens".
std::string with_all_words(std::string_view typed, const std::vector<std::string>& options) {
  const auto words_of = [](std::string_view name) {
    std::set<std::string, std::less<>> out;
    for (std::size_t begin = name.find_first_not_of('-'); begin < name.size();) {
      const std::size_t end = std::min(name.find('-', begin), name.size());
      out.emplace(name.substr(begin, end - begin));
      begin = end + 1;
    }
    return out;
  };
  const auto wanted = words_of(typed);
  std::string only;
  for (const std::string& option : options) {
    if (wanted.size() < 2 || !std::ranges::includes(words_of(option), wanted)) continue;
    if (!only.empty()) return "";
    only = option;
  }
  return only;
}

}  // namespace

std::variant<Value, ErrorText> check_option(const Option& option, const std::string& shown,
                                            const std::string& text) {
  if (option.key.path && text.empty())
    return ErrorText{
        "", fmt::format("'{}' must not be empty; expected {}", shown, option.value), {}};
  if (option.key.path)
    if (const auto advice = config::advice_on_home(text))
      return ErrorText{
          "", fmt::format("'{}' must not begin with ~, got '{}'", shown, text), {*advice}};
  if (option.key.type == Type::string && option.key.choices.empty()) return Value(text);
  return config::check_value(option.key, shown, typed_value(option, text), text);
}

void refuse_option(const std::vector<Option>& options, const std::string& word,
                   const std::string& advice) {
  const std::string typed = word.substr(0, word.find('='));
  const std::vector<std::string> known = option_words(options);
  std::string nearest = with_all_words(typed, known);
  if (nearest.empty()) nearest = nearest_name(typed, known);
  if (nearest.empty()) nearest = beginning_of(typed, known);
  refuse_usage(fmt::format("unknown option '{}'", printable(typed)),
               {!advice.empty()   ? advice
                : nearest.empty() ? "-h lists the options"
                                  : fmt::format("did you mean '{}'?", nearest)});
}

// For commands whose model is an argument: the hint for -m.
std::string model_advice(const Command& command, std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  if ((name != "-m" && name != "--model") || command.positionals.empty()) return "";
  const std::string& first = command.positionals.front().name;
  const bool is_model = first.find("MODEL") != std::string::npos;
  if (!is_model && first != "DIR") return "";
  return fmt::format("give the model without {}: lamina {} {}", name, command.name,
                     is_model ? "MODEL" : first);
}

// For an output option of other commands: the hint that names this one's.
std::string output_advice(const Command& command, std::string_view word) {
  constexpr std::string_view kNames[] = {"--to", "--output", "--out"};
  const std::string_view typed = word.substr(0, word.find('='));
  if (typed != "-o" && std::ranges::find(kNames, typed) == std::end(kNames)) return "";
  for (const std::string_view name : kNames)
    if (const Option* option = find_option(command.options, name))
      return fmt::format("did you mean '--{}'?", option->key.name);
  return "";
}

// For an option of another program: the hint that names this command's.
std::string other_name_advice(const Command& command, std::string_view word) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"--n-predict", "-n"},     {"--num-predict", "-n"},         {"--predict", "-n"},
      {"--max-length", "-n"},    {"--system-prompt", "--system"}, {"--sys", "--system"},
      {"--n-ctx", "--ctx-size"}, {"--num-ctx", "--ctx-size"},
  };
  std::string typed(word.substr(0, word.find('=')));
  std::ranges::replace(typed, '_', '-');
  for (const auto& [name, ours] : kNames)
    if (typed == name && find_option(command.options, ours))
      return fmt::format("did you mean '{}'?", ours);
  return "";
}

// For the plural of an option that may be repeated, as the list in run files is called: the hint
// that names the option.
std::string singular_advice(const Command& command, std::string_view word) {
  std::string_view typed = word.substr(0, word.find('='));
  if (!typed.starts_with("--") || !typed.ends_with('s')) return "";
  typed.remove_suffix(1);
  const Option* option = find_option(command.options, typed);
  return option && option->repeatable ? fmt::format("did you mean '{}'?", shown(*option)) : "";
}

// For a key, without its section, at a command that takes --set: the hint with --set. Commands with
// -m have no run file, and set keys of the model only.
std::string key_advice(const Command& command, std::string_view word) {
  if (!find_option(command.options, "--set")) return "";
  std::string name(word.substr(0, word.find('=')));
  name.erase(0, name.find_first_not_of('-'));
  std::ranges::replace(name, '-', '_');
  const bool model_only = find_option(command.options, "--model") != nullptr;
  for (const config::Section& section : config::documented_schema().sections) {
    if (model_only && section.name != "model") continue;
    for (const config::Key& key : section.keys)
      if (key.name == name && !(model_only && key.path))
        return fmt::format("a key of {}: --set {}=VALUE", model_only ? "the model" : "run files",
                           config::dotted_name(section, key));
  }
  return "";
}

// For an option that a single other command has: the hint that names it.
std::string other_command_advice(std::string_view word) {
  const std::string typed(word.substr(0, word.find('=')));
  const Command* only = nullptr;
  for (const Command& other : all_commands()) {
    if (std::ranges::count(option_words(other.options), typed) == 0) continue;
    if (only) return "";
    only = &other;
  }
  return only ? fmt::format("only `lamina {}` has it, which {}", only->name, only->summary) : "";
}

// Builds Arguments; only this class writes their private members.
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
  static constexpr const char* kPositional = " argument";  // cannot be typed as an option

  // Normalises dashes in option names. Refuses an option in the place of a value, which the library
  // would take as the value; --stop=--loud gives such a value.
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
    refuse_usage(fmt::format("option '{}' needs {}", shown(option),
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
      const std::string word = e.get_option_name();
      std::string advice = model_advice(command_, word);
      if (advice.empty()) advice = output_advice(command_, word);
      if (advice.empty()) advice = other_name_advice(command_, word);
      if (advice.empty()) advice = singular_advice(command_, word);
      if (advice.empty()) advice = key_advice(command_, word);
      refuse_option(options_, word, advice.empty() ? other_command_advice(word) : advice);
    } catch (const po::error_with_option_name& e) {
      const Option* option = find_option(options_, e.get_option_name());
      if (option && !takes_value(*option))
        refuse_usage(fmt::format("option '{}' takes no value", e.get_option_name()), {});
      if (option) refuse_missing_value(*option);
      refuse_usage(e.what(), {"-h shows the usage"});
    } catch (const po::error& e) {
      refuse_usage(e.what(), {"-h shows the usage"});
    }
  }

  void add_positional(const po::option& option) {
    for (const std::string& value : option.value) {
      const std::size_t index = std::min(out_.positionals.size() + 1, command_.positionals.size());
      if (value.empty() && index > 0)
        refuse_usage(fmt::format("{} must not be empty", command_.positionals[index - 1].name), {});
      out_.positionals.push_back(value);
    }
  }

  void add_option(const po::option& parsed) {
    const Option* option = find_option(options_, "--" + parsed.string_key);
    LAMINA_ASSERT(option != nullptr);
    std::vector<Value>& values = out_.values_[option->key.name];
    if (!values.empty() && !option->repeatable)
      refuse_usage(fmt::format("option '{}' is given twice", shown(*option)), {"keep one"});
    if (takes_value(*option))
      values.push_back(checked_value(*option, parsed.value.at(0)));
    else
      values.push_back(parsed.string_key != "no-" + option->key.name);
  }

  void check_options() const {
    for (const Option& option : options_) {
      if (!option.key.required || out_.values_.contains(option.key.name)) continue;
      const std::string short_form =
          option.short_name ? fmt::format("-{}", option.short_name) : shown(option);
      std::vector<std::string> notes = {usage_line(command_),
                                        fmt::format("see `lamina {} --help`", command_.name)};
      if (const std::string* extra = unexpected_positional())
        notes.insert(notes.begin(), fmt::format("did you mean `{} {}`?", short_form,
                                                shell_word(printable(*extra))));
      refuse_usage(fmt::format("missing option '{} {}'{}", shown(option), option.value,
                               option.short_name ? ", or " + short_form : ""),
                   std::move(notes));
    }
  }

  // Returns the first argument that the command does not take, null if there is none.
  const std::string* unexpected_positional() const {
    const std::size_t expected = command_.positionals.size();
    const bool unlimited = expected > 0 && command_.positionals.back().repeatable;
    return unlimited || out_.positionals.size() <= expected ? nullptr : &out_.positionals[expected];
  }

  void check_positionals() {
    std::size_t required = 0;
    for (const Positional& positional : command_.positionals) required += positional.required;
    std::size_t count = out_.positionals.size();
    if (count < required) {
      const Positional& missing = command_.positionals[count];
      refuse_usage(fmt::format("missing {}", missing.name),
                   {usage_line(command_), fmt::format("see `lamina {} --help`", command_.name)});
    }
    if (const std::string* extra = unexpected_positional())
      refuse_usage(fmt::format("unexpected argument '{}'", printable(*extra)),
                   {fmt::format("see `lamina {} --help`", command_.name)});
  }

  void set_globals() {
    Globals& globals = out_.globals;
    globals.quiet = out_.flag("quiet");
    if (auto found = out_.values_.find("verbose"); found != out_.values_.end())
      globals.verbosity = static_cast<int>(found->second.size());
    const std::string& color = out_.text("color");
    globals.color = color == "always"  ? ColorMode::always
                    : color == "never" ? ColorMode::never
                                       : ColorMode::automatic;
    if (out_.has("threads")) globals.threads = static_cast<int>(out_.integer("threads"));
    globals.plugins = out_.texts("plugin");
    for (std::string paths : out_.texts("plugin-path")) {
      if (paths.empty()) refuse_usage("option '--plugin-path' must name folders, got \"\"", {});
      for (std::size_t colon = 0; colon != paths.npos; paths.erase(0, colon + 1)) {
        colon = paths.find(':');
        if (std::string path = paths.substr(0, colon); !path.empty())
          globals.plugin_folders.push_back(path);
        if (colon == paths.npos) break;
      }
    }
  }

  const Command& command_;
  std::vector<Option> options_;
  po::options_description description_;
  Arguments out_;
};

Arguments parse_arguments(const Command& command, std::vector<std::string> words) {
  return CommandLine(command).parse(std::move(words));
}

const Value& Arguments::value(std::string_view name) const {
  if (auto found = values_.find(name); found != values_.end()) return found->second.back();
  auto preset = presets_.find(name);
  LAMINA_ASSERT(preset != presets_.end());
  return preset->second;
}

bool Arguments::flag(std::string_view name) const {
  if (!has(name) && !presets_.contains(name)) return false;
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
  if (auto found = values_.find(name); found != values_.end())
    for (const Value& value : found->second) out.push_back(std::get<std::string>(value.data));
  return out;
}

}  // namespace lamina::cli
