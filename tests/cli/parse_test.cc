// Parsing of command lines to checked values, with test commands.
#include "cli/shell/parse.h"

#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <sstream>

#include "cli/shell/commands.h"
#include "cli/shell/help.h"
#include "cli/shell/text.h"
#include "support/expect_error.h"

namespace lamina::cli {
namespace {

std::vector<Command> sample() {
  return {
      {.name = "greet",
       .summary = "says hello",
       .options =
           {{.key = {.name = "times",
                     .aliases = {"count"},
                     .type = Type::integer,
                     .preset = Value(1),
                     .min = 0,
                     .doc = "How often."},
             .short_name = 'n',
             .value = "N"},
            {.key = {.name = "temp",
                     .type = Type::number,
                     .preset = Value(1.0),
                     .min = 0,
                     .doc = "How warmly."},
             .value = "T"},
            {.key = {.name = "stop", .type = Type::string, .doc = "Where to end."},
             .value = "STR",
             .repeatable = true},
            {.key = {.name = "loud", .type = Type::boolean, .preset = Value(true), .doc = "Shout."},
             .negatable = true}},
       .positionals = {{.name = "NAME", .doc = "Whom.", .repeatable = true}}}};
}

Arguments parse(std::vector<std::string> words) {
  static const std::vector<Command> commands = sample();
  words.insert(words.begin(), "greet");
  return parse_command_line(commands, words).arguments;
}

TEST(CommandLine, Example) {
  Arguments a = parse({"Ada", "-n", "3", "--temp=0.5", "--stop", "x", "--stop", "y", "Bob"});
  EXPECT_EQ(a.integer("times"), 3);
  EXPECT_EQ(a.number("temp"), 0.5);
  EXPECT_EQ(a.texts("stop"), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(a.positionals, (std::vector<std::string>{"Ada", "Bob"}));
  EXPECT_TRUE(a.flag("loud"));
}

TEST(CommandLine, DefaultsAreNotGiven) {
  Arguments a = parse({"Ada"});
  EXPECT_EQ(a.integer("times"), 1);
  EXPECT_FALSE(a.has("times"));
  EXPECT_TRUE(parse({"Ada", "--count=1"}).has("times"));
}

TEST(CommandLine, NegatedFlagIsFalse) { EXPECT_FALSE(parse({"Ada", "--no-loud"}).flag("loud")); }

TEST(CommandLine, IntegerIsANumber) { EXPECT_EQ(parse({"A", "--temp", "2"}).number("temp"), 2.0); }

TEST(CommandLine, NegativeValueIsNotAnOption) {
  EXPECT_USER_ERROR(parse({"Ada", "--temp", "-1"}), 2,
                    "'--temp' must be a number, at least 0, got -1");
}

TEST(CommandLine, NotANumberIsRefused) {
  EXPECT_USER_ERROR(parse({"Ada", "--temp", "nan"}), 2,
                    "'--temp' must be a finite number, at least 0, got nan");
}

TEST(CommandLine, InfinityIsRefused) {
  EXPECT_USER_ERROR(parse({"Ada", "--temp", "inf"}), 2,
                    "'--temp' must be a finite number, at least 0, got inf");
}

TEST(CommandLine, IntegersHave64BitsWithTheirSign) {
  EXPECT_ERROR_SAYS(parse({"Ada", "--times", "18446744073709551615"}), 2,
                    "got 18446744073709551615, which is more than 2^63-1");
  EXPECT_ERROR_SAYS(parse({"Ada", "--times=-18446744073709551615"}), 2,
                    "got -18446744073709551615, which is less than -2^63");
}

TEST(CommandLine, EmptyArgumentsAreRefused) {
  EXPECT_ERROR_SAYS(parse({""}), 2, "must not be empty");
}

TEST(CommandLine, EmptyPathsAreRefused) {
  int paths = 0;
  for (const Command& command : all_commands())
    for (const Option& option : command.options) {
      const std::string& value = option.value;
      const bool is_path =
          value == "FILE" || value == "DIR" || value == "FILE|DIR" || value == "auto|none|PATH";
      EXPECT_EQ(option.key.path, is_path) << command.name << " --" << option.key.name;
      if (!is_path) continue;
      std::istringstream name(command.name);
      std::vector<std::string> words{std::istream_iterator<std::string>(name), {}};
      words.insert(words.end(), {"--" + option.key.name, ""});
      EXPECT_ERROR_SAYS(
          parse_command_line(all_commands(), words), 2,
          fmt::format("'--{}' must not be empty; expected {}", option.key.name, value));
      words.back() = "~/x";
      EXPECT_ERROR_SAYS(parse_command_line(all_commands(), words), 2,
                        fmt::format("'--{}' must not begin with ~, got '~/x'", option.key.name));
      ++paths;
    }
  EXPECT_GT(paths, 30);
}

TEST(CommandLine, TextMayLookLikeANumberOrBeginWithADash) {
  EXPECT_EQ(parse({"Ada", "--stop", "3"}).texts("stop"), std::vector<std::string>{"3"});
  EXPECT_EQ(parse({"Ada", "--stop", "- item"}).texts("stop"), std::vector<std::string>{"- item"});
  EXPECT_EQ(parse({"Ada", "--stop=--loud"}).texts("stop"), std::vector<std::string>{"--loud"});
}

TEST(CommandLine, AnEmptyWordIsAValue) {
  EXPECT_EQ(parse({"Ada", "--stop", ""}).texts("stop"), std::vector<std::string>{""});
}

TEST(CommandLine, WordsAfterTwoDashesAreArguments) {
  EXPECT_EQ(parse({"--", "--loud"}).positionals, std::vector<std::string>{"--loud"});
}

TEST(CommandLine, UnderscoresInValuesStay) {
  EXPECT_EQ(parse({"Ada", "--stop=a_b"}).texts("stop"), std::vector<std::string>{"a_b"});
  EXPECT_FALSE(parse({"Ada", "--no_loud"}).flag("loud"));
}

TEST(CommandLine, PluginPathsAreSplitAtColons) {
  Arguments a = parse({"Ada", "--plugin-path", "/a:/b", "--plugin-path=/c", "-vv"});
  EXPECT_EQ(a.globals.plugin_folders, (std::vector<std::string>{"/a", "/b", "/c"}));
  EXPECT_EQ(a.globals.verbosity, 2);
}

TEST(Help, FitsInEightyColumns) {
  std::vector<std::string> pages = {program_help(all_commands())};
  for (const Command& command : all_commands()) pages.push_back(command_help(command));
  for (const std::string& page : pages)
    for (std::size_t at = 0; at < page.size(); at = page.find('\n', at) + 1)
      EXPECT_LE(display_width(page.substr(at, page.find('\n', at) - at)), 80)
          << page.substr(at, 100);
}

TEST(Help, EveryCommandHasAnExample) {
  for (const Command& command : all_commands())
    EXPECT_FALSE(command.examples.empty()) << command.name;
}

TEST(Help, CommandsOfAGroupAreAdjacent) {
  std::vector<std::string> groups;
  for (const Command& command : all_commands()) {
    const std::string group = command.name.substr(0, command.name.find(' '));
    if (groups.empty() || groups.back() != group) groups.push_back(group);
  }
  EXPECT_EQ(std::set<std::string>(groups.begin(), groups.end()).size(), groups.size());
}

TEST(Help, DefaultsAreWithinTheirLimits) {
  for (const Command& command : all_commands()) {
    for (const Option& option : command.options) {
      const Key& key = option.key;
      if (!key.preset || !key.min || key.type != Type::integer) continue;
      EXPECT_GE(static_cast<double>(*key.preset->get_if<std::int64_t>()), *key.min)
          << command.name << " --" << key.name;
    }
  }
}

TEST(Wrap, NeverSplitsAWord) {
  EXPECT_EQ(wrap("aa bb cc", 2, 7), "aa bb\n  cc");
  EXPECT_EQ(wrap("aaaaaaaaaaaa b", 2, 7), "aaaaaaaaaaaa\n  b");
}

}  // namespace
}  // namespace lamina::cli
