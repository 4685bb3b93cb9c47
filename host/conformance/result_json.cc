#include "conformance/result_json.h"

#include "core/error.h"
#include "core/json.h"
#include "core/json_writer.h"

namespace lamina::conformance {

std::string results_json(std::span<const Result> results, const PluginSubject& plugin) {
  const Summary summary = summary_of(results);
  JsonWriter json(2);
  json.begin_object().key("file").value(plugin.file().string());
  json.key("level").value(name(plugin.settings().level));
  json.key("seed").value(static_cast<unsigned long>(plugin.settings().seed));
  json.key("checks").begin_array();
  for (const Result& result : results)
    json.begin_object()
        .key("id")
        .value(result.check->id)
        .key("outcome")
        .value(name(result.outcome))
        .key("rules")
        .value(result.check->rules)
        .key("text")
        .value(result.text)
        .key("blocked")
        .value(result.blocked)
        .key("digest")
        .value(fmt::format("{:016x}", result.digest))
        .key("seconds")
        .value(result.seconds)
        .end_object();
  json.end_array();
  json.key("passed").value(summary.passed);
  json.key("failed").value(static_cast<int>(summary.failed.size()));
  json.key("skipped").value(static_cast<int>(summary.skipped.size()));
  return json.key("conforms").value(summary.conforms).end_object().text() + "\n";
}

std::optional<Result> read_result(const std::string& json, const Check& check) {
  try {
    const JsonDocument document = JsonDocument::parse(json, "a check's result");
    const JsonValue checks = document.root().at("checks");
    if (checks.size() != 1) return std::nullopt;
    const JsonValue found = checks.element(0);
    if (found.at("id").as_string() != check.id) return std::nullopt;
    Result out{.check = &check};
    bool known = false;
    for (const Outcome outcome :
         {Outcome::pass, Outcome::fail, Outcome::crash, Outcome::timeout, Outcome::skip})
      if (found.at("outcome").as_string() == name(outcome)) {
        out.outcome = outcome;
        known = true;
      }
    if (!known) return std::nullopt;
    out.text = found.at("text").as_string();
    out.blocked = found.at("blocked").as_bool();
    out.digest = std::stoull(std::string(found.at("digest").as_string()), nullptr, 16);
    out.seconds = found.at("seconds").as_double();
    return out;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace lamina::conformance
