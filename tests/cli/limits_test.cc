// Every number of a command line or a run file, at its limits and beyond: a documented exit code,
// no signal, no hang.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "cli/shell/commands.h"
#include "cli/shell/exit_codes.h"
#include "cli/shell/parse.h"
#include "config/run_config.h"
#include "core/error.h"
#include "support/paths.h"
#include "trained_run.h"

namespace lamina::cli {
namespace {

using testing::Finished;

bool is_numeric(const Key& key) { return key.type == Type::integer || key.type == Type::number; }

// Values that users and programs may write for a number with these limits.
std::vector<std::string> odd_numbers(const Key& key) {
  std::vector<std::string> out = {"0",
                                  "-1",
                                  "9223372036854775807",
                                  "-9223372036854775808",
                                  "9223372036854775808",
                                  "1e308",
                                  "-1e308",
                                  "nan",
                                  "inf"};
  for (const std::optional<double>& limit : {key.min, key.max}) {
    if (!limit) continue;
    const bool whole = std::abs(*limit) < 9e15 && *limit == std::floor(*limit);
    for (double step : {-1.0, 0.0, 1.0})
      out.push_back(whole ? fmt::format("{}", static_cast<std::int64_t>(*limit + step))
                          : fmt::format("{}", *limit));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// The words that the command requires, without options.
std::vector<std::string> minimal_words(const Command& command) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < command.name.size();) {
    const std::size_t end = std::min(command.name.find(' ', at), command.name.size());
    words.push_back(command.name.substr(at, end - at));
    at = end + 1;
  }
  for (const Positional& positional : command.positionals)
    if (positional.required) words.push_back("x");
  for (const Option& option : command.options)
    if (option.key.required) words.push_back("--" + option.key.name + "=x");
  return words;
}

// A value within the limits is accepted; a value outside is refused with the option's name.
TEST(Limits, EveryNumericOptionRefusesValuesOutsideOfThem) {
  for (const Command& command : all_commands()) {
    std::vector<Option> options = command.options;
    options.insert(options.end(), global_options().begin(), global_options().end());
    for (const Option& option : options) {
      if (!is_numeric(option.key)) continue;
      for (const std::string& number : odd_numbers(option.key)) {
        std::vector<std::string> words = minimal_words(command);
        words.push_back("--" + option.key.name + "=" + number);
        SCOPED_TRACE(command.name + " " + words.back());
        try {
          const Request request = parse_command_line(all_commands(), words);
          const double value = option.key.type == Type::integer
                                   ? static_cast<double>(request.arguments.integer(option.key.name))
                                   : request.arguments.number(option.key.name);
          EXPECT_TRUE(std::isfinite(value));
          if (option.key.min) {
            EXPECT_GE(value, *option.key.min);
          }
          if (option.key.max) {
            EXPECT_LE(value, *option.key.max);
          }
        } catch (const UserError& refused) {
          EXPECT_EQ(refused.code(), ExitCode::usage);
          EXPECT_NE(std::string(refused.what()).find("--" + option.key.name), std::string::npos);
        }
      }
    }
  }
}

// Expects the program to end within seconds, with a documented code.
Finished expect_documented(std::vector<std::string> words, const std::string& folder) {
  std::string line;
  for (const std::string& word : words) line += word + " ";
  words.insert(words.begin(), {"timeout", "-k", "1", "20", LAMINA_BUILD_DIR "/bin/lamina"});
  Finished f = testing::run_process(words, {.environment = {"LAMINA_PIN=0"}, .folder = folder});
  const bool known = std::ranges::any_of(exit_codes(), [&](const ExitCodeMeaning& row) {
    return static_cast<int>(row.code) == f.code;
  });
  EXPECT_TRUE(known && f.code != 1) << "lamina " << line << ": " << f.code << "\n" << f.err;
  if (f.code != 0) {
    EXPECT_NE(f.err.find("error: "), f.err.npos) << line;
  }
  return f;
}

// Nothing is trained: the graphs of the run are built and its memory is planned.
TEST(Limits, EveryNumericKeyRefusesValuesOutsideOfThem) {
  testing::TempDir folder;
  folder.write("run.toml", tiny_run_file("out"));
  std::size_t refused = 0, taken = 0;
  for (const config::Section& section : config::run_schema().sections)
    for (const Key& key : section.keys) {
      if (!is_numeric(key)) continue;
      const std::string name = config::dotted_name(section, key);
      const bool is_size = name.ends_with("_size") || name.ends_with("_length");
      for (const std::string& number : odd_numbers(key)) {
        const std::string set = name + "=" + number;
        try {
          config::load_run(folder / "run.toml", {.sets = {set}, .environment = {}});
          ++taken;
          if (!is_size) continue;  // no graph depends on it
        } catch (const UserError& error) {
          EXPECT_EQ(error.code(), ExitCode::usage) << set;
          EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
          ++refused;
          continue;
        }
        expect_documented({"explain", "run.toml", "--set", set}, folder.path());
        expect_documented({"plan", "run.toml", "--set", set}, folder.path());
      }
    }
  EXPECT_GT(refused, 100u);
  EXPECT_GT(taken, 50u);
}

TEST(Limits, SizesAreCheckedBeforeTheyAreMultiplied) {
  testing::TempDir folder;
  folder.write("run.toml", tiny_run_file("out"));
  const std::string model = trained_run();
  const std::string max = "2147483647", more = "2147483648", rows = "134217728";
  struct Case {
    int code;  // 0: any documented code
    std::vector<std::string> words;
    std::string says;
  };
  const Case cases[] = {
      {2,
       {"train", "run.toml", "--set", "train.batch_size=" + rows, "--set",
        "train.microbatch_size=" + rows},
       "134217728 rows of 32 tokens are requested at once; at most 2147483647 tokens"},
      {2, {"explain", "run.toml", "-b", more}, "'--batch' must be an integer"},
      {2, {"explain", "run.toml", "-n", more}, "'--tokens' must be an integer"},
      {2, {"explain", "run.toml", "-b", max}, "2147483647 rows of"},
      {0, {"explain", "run.toml", "-b", "1", "-n", max}, ""},
      {2, {"plan", "run.toml", "-c", more}, "'--context' must be an integer"},
      {0, {"plan", "run.toml", "-b", "1", "-c", max}, ""},
      {2, {"plan", "run.toml", "-b", max, "-c", max}, "2147483647 rows of 2147483647 tokens"},
      {2, {"plan", model, "-b", max}, "rows of"},
      {0, {"bench", "decode", "-m", "run.toml", "-b", max, "-n", "2"}, ""},
      {0, {"bench", "prefill", "-m", "run.toml", "-n", max}, ""},
      {0, {"bench", "train", "-m", "run.toml", "-n", max, "-b", max}, ""},
      {0, {"eval", model, "-n", max, "-b", max}, ""},
      {2,
       {"decode", "-m", model, "--ids", "1", "-n", "9223372036854775807"},
       "'--max-new-tokens' must be an integer, at least 1 and at most 2147483647, got "
       "9223372036854775807"},
      {0, {"decode", "-m", model, "--ids", "1", "-n", "3", "--ctx-size", max}, ""},
      {2, {"decode", "-m", model, "--ids", "1", "-t", "1025"}, "at most 1024, got 1025"},
  };
  for (const Case& c : cases) {
    const Finished f = expect_documented(c.words, folder.path());
    if (c.code != 0) {
      EXPECT_EQ(f.code, c.code) << f.err;
    }
    EXPECT_NE(f.err.find(c.says), f.err.npos) << c.says << "\n" << f.err;
  }
}

TEST(Limits, CountsOfExpertsAndLayersHaveThem) {
  testing::TempDir folder;
  folder.write("moe.toml",
               "family = \"qwen3_moe\"\n[model]\nvocab_size = 258\nhidden_size = 16\n"
               "intermediate_size = 16\nmoe_intermediate_size = 8\nnum_hidden_layers = 2\n"
               "num_attention_heads = 2\nnum_key_value_heads = 2\nhead_dim = 8\nnum_experts = 4\n"
               "num_experts_per_tok = 2\n");
  const std::pair<const char*, const char*> cases[] = {
      {"model.num_experts=65537", "'model.num_experts' must be an integer, at least 0 and at most"},
      {"model.num_experts=10000000", "at most 65536, got 10000000"},
      {"model.num_hidden_layers=8193", "'num_hidden_layers' must be 1 to 8192, got 8193"},
      {"model.num_hidden_layers=0", "'model.num_hidden_layers' must be an integer, at least 1"},
  };
  for (const auto& [set, says] : cases) {
    const Finished f = expect_documented({"plan", "moe.toml", "--set", set}, folder.path());
    EXPECT_EQ(f.code, 2) << set;
    EXPECT_NE(f.err.find(says), f.err.npos) << f.err;
  }
  EXPECT_EQ(expect_documented({"plan", "moe.toml"}, folder.path()).code, 0);
  const Finished many = expect_documented({"plan", "moe.toml", "--set", "model.num_experts=65536",
                                           "--set", "model.num_hidden_layers=8192"},
                                          folder.path());
  EXPECT_EQ(many.code, 2);
  EXPECT_NE(many.err.find("is published in more than 524288 tensors, the maximum"), many.err.npos)
      << many.err;
}

TEST(Limits, TrainingBeyondThePositionsIsRefused) {
  testing::TempDir folder;
  folder.write("run.toml", tiny_run_file("out"));
  const Finished f =
      expect_documented({"train", "run.toml", "--set", "data.sequence_length=65"}, folder.path());
  EXPECT_EQ(f.code, 2);
  EXPECT_NE(f.err.find("data.sequence_length: is 65; the model is made for sequences of 64 tokens\n"
                       "  max_position_embeddings = 64 (run.toml:8)\n"
                       "  use at most 64, or raise model.max_position_embeddings"),
            f.err.npos)
      << f.err;
}

}  // namespace
}  // namespace lamina::cli
