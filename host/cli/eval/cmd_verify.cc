// lamina verify: recomputes the results of another implementation and compares.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/text.h"
#include "core/json_writer.h"
#include "inspect/verify/verify.h"
#include "model/open.h"

namespace lamina::cli {
namespace {

// Number of uncomputed quantities that are named without --all.
constexpr std::size_t kShownSkipped = 3;
// Number of unread keys of config.json that are named.
constexpr std::size_t kShownUnread = 8;

// The names of quantities, cut after a few.
std::string list(const std::vector<std::string>& names, bool all) {
  const std::size_t shown = all ? names.size() : std::min(names.size(), kShownSkipped);
  return fmt::format("{}{}", fmt::join(std::span(names).first(shown), ", "),
                     shown < names.size() ? fmt::format(" and {} more", names.size() - shown) : "");
}

std::size_t num_unknown(const inspect::VerifyReport& report) {
  return static_cast<std::size_t>(std::ranges::count_if(report.skipped, &std::string::empty,
                                                        &inspect::SkippedQuantity::reason));
}

// The reason why a quantity that the model should have is absent.
std::string absence(const inspect::SkippedQuantity& skipped) {
  if (skipped.tags.empty()) return "the model has no quantity of that name";
  return fmt::format("no value of the layer has the tag '{}'; a block sets it with tag()",
                     fmt::join(skipped.tags, "' or '"));
}

std::string skipped_text(const inspect::VerifyReport& report, bool all) {
  std::map<std::string, std::vector<std::string>> failed, skipped;  // by reason
  for (const inspect::SkippedQuantity& s : report.skipped)
    (s.reason.empty() ? failed[absence(s)] : skipped[s.reason]).push_back(s.quantity);
  std::string out;
  for (const auto& [reason, names] : failed)
    out += fmt::format("  FAIL not computed: {}; {}{}\n", list(names, all), reason,
                       all || names.size() <= kShownSkipped ? "" : " (--all lists them)");
  for (const auto& [reason, names] : skipped)
    out += fmt::format("  not computed: {}; {}\n", list(names, all), reason);
  return out;
}

std::string unbuilt_text(const inspect::VerifyReport& report) {
  std::string out;
  for (const inspect::UnbuiltType& one : report.unbuilt)
    out += fmt::format("  {} in {}{}: {}\n",
                       one.dtype == DType::f64 ? "not built" : "FAIL does not build",
                       long_name(one.dtype),
                       one.dtype == DType::f64 ? ", the type of gradients in `lamina plugin check`"
                                               : ", which runs use",
                       one.reason);
  return out;
}

std::string as_text(const inspect::VerifyReport& report, bool all) {
  std::string out = report.directory + "\n";
  std::size_t passed = 0, width = 8;
  for (const inspect::VerifyRow& row : report.rows) width = std::max(width, row.quantity.size());
  for (const inspect::VerifyRow& row : report.rows) {
    passed += row.passed();
    if (!all && row.passed()) continue;
    out += fmt::format("  {} {:<{}}  {:9.3g}  allowed {:9.3g}{}{}\n",
                       row.passed() ? "ok  " : "FAIL", row.quantity, width, row.error,
                       row.tolerance, row.note.empty() ? "" : "  ", row.note);
  }
  if (!report.first_departure.empty())
    out += fmt::format("  the first difference is in {}\n", report.first_departure);
  out += skipped_text(report, all) + unbuilt_text(report);
  if (!report.unread.empty())
    out +=
        fmt::format("  unused keys: {}\n",
                    model::list_unread(report.unread, all ? report.unread.size() : kShownUnread));
  const std::size_t unknown = num_unknown(report);
  return out + fmt::format("  {} of {} quantities agree{}\n", passed, report.rows.size(),
                           unknown > 0 ? fmt::format(", {} are unknown", unknown) : "");
}

void write_json(JsonWriter& json, const inspect::VerifyReport& report) {
  json.begin_object().key("case").value(report.directory).key("passed").value(report.passed());
  json.key("rows").begin_array();
  for (const inspect::VerifyRow& row : report.rows)
    json.begin_object()
        .key("quantity")
        .value(row.quantity)
        .key("error")
        .value(row.error)
        .key("tolerance")
        .value(row.tolerance)
        .key("passed")
        .value(row.passed())
        .end_object();
  json.end_array().key("not_computed").begin_array();
  for (const inspect::SkippedQuantity& s : report.skipped)
    json.begin_object()
        .key("quantity")
        .value(s.quantity)
        .key("reason")
        .value(s.reason.empty() ? absence(s) : s.reason)
        .key("passed")
        .value(!s.reason.empty())
        .end_object();
  json.end_array().key("does_not_build_in").begin_array();
  for (const inspect::UnbuiltType& one : report.unbuilt)
    json.begin_object()
        .key("dtype")
        .value(long_name(one.dtype))
        .key("reason")
        .value(one.reason)
        .end_object();
  json.end_array().key("unread_keys").begin_array();
  for (const std::string& key : report.unread) json.value(key);
  json.end_array().key("first_departure").value(report.first_departure).end_object();
}

int run_verify(const Arguments& arguments, const Device& device) {
  device.use_threads(arguments.globals.threads);
  DType dtype = *parse_dtype(arguments.text("dtype"));
  bool passed = true;
  JsonWriter json(2);
  json.begin_array();
  for (const std::string& directory : arguments.positionals) {
    inspect::VerifyReport report =
        inspect::verify_case(directory, dtype, plugin_catalog(arguments.globals), device.backend());
    passed = passed && report.passed();
    if (arguments.flag("json"))
      write_json(json, report);
    else
      print(as_text(report, arguments.flag("all")));
  }
  if (arguments.flag("json")) print(json.end_array().text() + "\n");
  return passed ? 0 : static_cast<int>(ExitCode::numerical);
}

}  // namespace

Command verify_command() {
  return {
      .name = "verify",
      .summary = "compares a model's numbers with another implementation's",
      .details =
          "A case is a directory with config.json and weights as published, and "
          "golden.safetensors with golden.json: logits, loss, gradients (whole, or 128 samples "
          "and a norm), hidden states of every layer, values inside it (attention, "
          "feed-forward, "
          "routers, indexers), packed rows, greedy tokens, or a training run. All are "
          "recomputed. The graphs are also built in the other compute types. Exit code 0 if "
          "everything agrees within the case's tolerance; 3 if something differs, has an unknown "
          "name, or does not build in a type of runs. Plugin authors check a new family with it.",
      .options = {{.key = {.name = "dtype",
                           .type = Type::string,
                           .preset = Value("float32"),
                           .choices = {"float32", "bfloat16"},
                           .doc = "Type to compute in; bfloat16 has a wider tolerance."},
                   .value = "TYPE"},
                  {.key = {.name = "all",
                           .type = Type::boolean,
                           .doc = "Print every quantity, not only those that fail."},
                   .short_name = 'a'},
                  device_option(),
                  json_option()},
      .positionals = {{.name = "CASE_DIR", .doc = "A golden case.", .repeatable = true}},
      .examples = {"lamina verify tests/golden/hf/gpt2_prefixed", "lamina verify cases/* --json"},
      .run = run_verify};
}

}  // namespace lamina::cli
