// lamina plugin check: checks that a plugin keeps to the contract.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/terminal.h"
#include "cli/shell/text.h"
#include "conformance/process/descendants.h"
#include "conformance/process/run_check.h"
#include "conformance/process/runner.h"
#include "conformance/result_json.h"
#include "conformance/result_text.h"
#include "core/program_path.h"
#include "core/write_all.h"
#include "registry/discovery.h"

namespace lamina::cli {
namespace {

using namespace conformance;

Level level_of(const Arguments& arguments) {
  for (const Level level : {Level::quick, Level::full, Level::pedantic})
    if (arguments.text("level") == name(level)) return level;
  return Level::quick;
}

std::vector<const Check*> wanted(const Arguments& arguments) {
  std::vector<const Check*> out;
  const std::vector<std::string> ids = arguments.texts("only");
  for (const std::string& id : ids)
    if (!find_check(id))
      throw UserError(ExitCode::usage,
                      {"--only",
                       fmt::format("'{}' is not a check", id),
                       {fmt::format("checks are FIL-1 to SEC-1, see docs/plugin_check.md")}});
  for (const Check& check : all_checks()) {
    const bool named = std::ranges::find(ids, check.id) != ids.end();
    const bool included =
        check.level <= level_of(arguments) || (check.needs_golden && arguments.has("golden"));
    if (ids.empty() ? included : named) out.push_back(&check);
  }
  return out;
}

PluginSubject subject_of(const Arguments& arguments, const Device& device) {
  const std::string& what = arguments.positionals[0];
  Settings settings{.level = level_of(arguments),
                    .seed = static_cast<std::uint64_t>(arguments.integer("seed"))};
  if (arguments.has("time-limit"))
    settings.seconds = static_cast<double>(arguments.integer("time-limit"));
  for (const std::string& file : arguments.texts("model"))
    settings.models.push_back(std::filesystem::absolute(file));
  for (const std::string& folder : arguments.texts("golden")) {
    if (std::error_code error; !std::filesystem::is_directory(folder, error))
      throw UserError(ExitCode::usage, {"--golden",
                                        fmt::format("'{}' is not a directory", folder),
                                        {"give the directory of a golden case, with golden.json"}});
    settings.goldens.push_back(std::filesystem::absolute(folder));
  }
  if (arguments.has("family")) settings.family = arguments.text("family");
  if (arguments.has("device")) settings.device = device.name();
  const Compute compute{&device.backend(),
                        [&device](int count) { device.set_threads(count, false); }};
  if (is_plugin_path(what)) {
    // Every check would report the same.
    std::error_code error;
    if (!std::filesystem::is_regular_file(what, error))
      (void)choose_plugin(what, arguments.globals);
    registry::require_trusted(what);
    return {std::filesystem::absolute(what), settings, compute};
  }
  const registry::PluginFile plugin = choose_plugin(what, arguments.globals);
  for (const registry::FamilyNames& family : plugin.manifest.families)
    if (!arguments.has("family") && family.is_called(what)) settings.family = family.name;
  return {plugin.path, settings, compute};
}

int check(const Arguments& arguments, const Device& device) {
  if (arguments.flag("here")) end_forks_with_this_process();
  device.use_threads(arguments.globals.threads);
  const PluginSubject plugin = subject_of(arguments, device);
  if (arguments.has("family")) require_family_of(plugin.file(), plugin.settings().family);
  require_models_of(plugin.file(), plugin.settings().models, plugin.settings().family);
  const std::vector<const Check*> checks = wanted(arguments);
  const bool json = arguments.flag("json");
  const Terminal out = describe_terminal(output_descriptor(), arguments.globals.color);
  const Terminal err = describe_terminal(STDERR_FILENO, arguments.globals.color);
  const bool progress = err.animated && !arguments.globals.quiet && !arguments.flag("here");
  std::size_t started = 0;
  const auto watch = [&](const Check& which, const Result* done) {
    if (progress)
      (void)write_all(
          STDERR_FILENO,
          done ? "\r\033[K" : fmt::format("\r{} ({} of {})", which.id, ++started, checks.size()));
    if (done && !json) print_bytes(result_text(*done, plugin, out.color));
  };
  std::vector<Result> results;
  if (!arguments.flag("here")) results = run_checks(checks, plugin, program_path(), watch);
  for (const Check* which : checks) {
    if (!arguments.flag("here")) break;
    results.push_back(run_check(*which, plugin));
    watch(*which, &results.back());
  }
  const Summary summary = summary_of(results);
  print(json ? results_json(results, plugin) : verdict_text(summary, plugin));
  return static_cast<int>(summary.conforms ? ExitCode::ok : ExitCode::plugin);
}

Option repeated(Option option) {
  option.repeatable = true;
  return option;
}

}  // namespace

Command plugin_check_command() {
  return {
      .name = "plugin check",
      .summary = "checks that a plugin keeps to the contract",
      .details =
          "Runs the checks of the conformance kit, each in a separate process, on small "
          "models of every family: the models in NAME.check beside NAME.lamina.so, else models "
          "derived from the keys. Each line names a check; docs/plugin_check.md "
          "explains them, and docs/plugin_requirements.md the rules in brackets. Exit "
          "code 0 if the plugin conforms; 8 if a check failed.",
      .options = {choice_option("level", "LEVEL", {"quick", "full", "pedantic"}, "quick",
                                "Depth of the checks: seconds, up to a minute, or everything."),
                  repeated(text_option("only", 0, "ID", "Only this check, of any level.")),
                  {.key = {.name = "here",
                           .type = Type::boolean,
                           .doc = "Run the checks in this process, for a debugger."}},
                  text_option("family", 0, "NAME", "Only this family of the plugin."),
                  repeated(text_option("model", 0, "FILE",
                                       "A small model of a checked family, in addition to the "
                                       "plugin's: a .toml, or a directory with a config.json.")),
                  repeated(text_option("golden", 0, "DIR", "A golden case to compare with.")),
                  integer_option("seed", 0, 1, "Seed of the weights.", 0),
                  integer_option("time-limit", 0, {},
                                 "Seconds of processor time for each check and family, for slow "
                                 "machines. Default: 10; 60 from level full on.",
                                 1, 86400),
                  device_option(),
                  json_option()},
      .positionals = {{.name = "FILE|NAME", .doc = "A .lamina.so, or the name of a family."}},
      .examples = {"lamina plugin check my_family",
                   "lamina plugin check build/lib/lamina/plugins/my_family.lamina.so --level full",
                   "lamina plugin check my_family --only TRC-2 --here"},
      .run = check};
}

}  // namespace lamina::cli
