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

std::string as_text(const inspect::VerifyReport& report, bool all) {
  std::string out = report.directory + "\n";
  std::size_t passed = 0, width = 8;
  for (const inspect::VerifyRow& row : report.rows) width = std::max(width, row.quantity.size());
  for (const inspect::VerifyRow& row : report.rows) {
    passed += row.passed();
    if (!all && row.passed()) continue;
    out +=
        fmt::format("  {} {:<{}}  {:9.3g}  allowed {:9.3g}  {}\n", row.passed() ? "ok  " : "FAIL",
                    row.quantity, width, row.error, row.tolerance, row.note);
  }
  if (!report.first_departure.empty())
    out += fmt::format("  the first difference is in {}\n", report.first_departure);
  std::map<std::string, std::vector<std::string>> skipped;  // by reason
  for (const inspect::SkippedQuantity& s : report.skipped) skipped[s.reason].push_back(s.quantity);
  for (const auto& [reason, quantities] : skipped) {
    if (reason.empty()) {
      out += fmt::format("  FAIL not computed: {}\n", fmt::join(quantities, ", "));
      continue;
    }
    const std::size_t shown = all ? quantities.size() : std::min(quantities.size(), kShownSkipped);
    const std::string more =
        shown < quantities.size() ? fmt::format(" and {} more", quantities.size() - shown) : "";
    out += fmt::format("  not computed: {}{}; {}\n",
                       fmt::join(std::span(quantities).first(shown), ", "), more, reason);
  }
  if (!report.unread.empty())
    out +=
        fmt::format("  unused keys: {}\n",
                    model::list_unread(report.unread, all ? report.unread.size() : kShownUnread));
  return out + fmt::format("  {} of {} quantities agree\n", passed, report.rows.size());
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
        .value(s.reason)
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
          "recomputed. Exit code 0 if everything agrees within the case's tolerance; 3 if "
          "something differs or has an unknown name. Plugin authors check a new "
          "family with it.",
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
