#include "cli/report/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/report/report_assets.h"

namespace lamina::cli {

const std::string_view kReportPageStart =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
    "<meta name=\"generator\" content=\"lamina report\"/>\n";

namespace {

using Facts = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kCurveBytes = 72 << 10, kLogBytes = 44 << 10;  // of all runs
constexpr std::size_t kMaxNamesInTitle = 4;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if ((static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\t') || c == 127)
      out += ' ';
    else
      out += c;
  }
  return out;
}

// Makes JSON safe for a <script> element: no "</script>" or "<!--", no U+2028 and U+2029, which end
// a line of JavaScript. All of these occur inside strings.
std::string script_json(std::string_view json) {
  std::string out;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = json.substr(i);
    if (json[i] == '<' || json[i] == '>' || json[i] == '&') {
      out += fmt::format("\\u{:04x}", static_cast<int>(json[i]));
    } else if (rest.starts_with("\xe2\x80\xa8") || rest.starts_with("\xe2\x80\xa9")) {
      out += rest[2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      out += json[i];
    }
  }
  return out;
}

std::string title_of(const std::vector<ReportRun>& runs) {
  std::string out;
  for (std::size_t i = 0; i < std::min(runs.size(), kMaxNamesInTitle); ++i)
    out += (i > 0 ? ", " : "") + runs[i].name;
  if (runs.size() > kMaxNamesInTitle)
    out += fmt::format(" and {} more", runs.size() - kMaxNamesInTitle);
  return out;
}

std::string table_of(const Facts& facts) {
  std::string out = "<table>\n<tbody>\n";
  for (const auto& [name, value] : facts)
    out += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escaped(name), escaped(value));
  return out + "</tbody>\n</table>\n";
}

// One column per run; `rows` by name, each with a value per run ("" for none).
std::string comparison_of(
    const std::vector<ReportRun>& runs,
    const std::vector<std::pair<std::string, std::vector<std::string>>>& rows) {
  std::string out = "<div class=\"card facts\"><table>\n<thead><tr><th></th>";
  for (const ReportRun& run : runs) out += "<th>" + escaped(run.name) + "</th>";
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& [name, values] : rows) {
    out += "<tr><th>" + escaped(name) + "</th>";
    for (const std::string& value : values) out += "<td>" + escaped(value) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table></div>\n";
}

std::string facts_of(const std::vector<ReportRun>& runs) {
  if (runs.size() == 1)
    return runs[0].facts.empty()
               ? ""
               : "<div class=\"card facts\">" + table_of(runs[0].facts) + "</div>\n";
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (const auto& [name, value] : runs[i].facts) {
      auto row = std::ranges::find(rows, name, [](const auto& r) { return r.first; });
      if (row == rows.end())
        row = rows.insert(rows.end(), {name, std::vector<std::string>(runs.size())});
      row->second[i] = value;
    }
  return comparison_of(runs, rows);
}

// Parses a config.toml written by lamina: a key per line with its source, "train.steps" -> "100".
std::map<std::string, std::string> settings_of(std::string_view text) {
  std::map<std::string, std::string> out;
  std::string section;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with('[')) section = std::string(line.substr(1, line.find(']') - 1)) + ".";
    const std::size_t equals = line.find(" = ");
    if (line.starts_with('#') || line.starts_with('[') || equals == line.npos) continue;
    std::string_view value = line.substr(equals + 3);
    value = value.substr(0, value.rfind("# "));
    value = value.substr(0, value.find_last_not_of(' ') + 1);
    out[section + std::string(line.substr(0, equals))] = value;
  }
  return out;
}

std::string differing_settings(const std::vector<ReportRun>& runs) {
  std::map<std::string, std::vector<std::string>> all;
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (const auto& [key, value] : settings_of(runs[i].settings))
      all.try_emplace(key, runs.size()).first->second[i] = value;
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
  for (const auto& [key, values] : all)
    if (std::ranges::any_of(values, [&](const auto& v) { return v != values[0]; }))
      rows.emplace_back(key, values);
  return rows.empty() ? "" : "<h2>Settings that differ</h2>\n" + comparison_of(runs, rows);
}

std::string text_of(const ReportBadStep& step) {
  std::string out = "<h3>" + escaped(step.title) + "</h3>\n" + table_of(step.facts) +
                    "<details><summary>rows that were read</summary>\n";
  for (const auto& [place, text] : step.rows)
    out += "<p>" + escaped(place) + "</p>\n<pre>" + escaped(text) + "</pre>\n";
  return out + "</details>\n";
}

std::string samples_of(const std::vector<ReportSamples>& all) {
  std::string out;
  for (const ReportSamples& samples : all) {
    out += "<h3>" + escaped(samples.when) + "</h3>\n";
    for (const auto& [prompt, text] : samples.samples)
      out += "<pre class=\"sample\"><b>" + escaped(prompt) + "</b>" + escaped(text) + "</pre>\n";
  }
  return out;
}

// The first and last lines of a log that is longer than `max_bytes`.
std::string shortened_log(const std::string& log, std::size_t max_bytes) {
  if (log.size() <= max_bytes) return log;
  const std::size_t head = log.rfind('\n', max_bytes / 4);
  const std::size_t tail = log.find('\n', log.size() - max_bytes / 4 * 3);
  if (head == log.npos || tail == log.npos || tail <= head) return log.substr(0, max_bytes);
  const auto left_out = std::count(log.begin() + static_cast<std::ptrdiff_t>(head),
                                   log.begin() + static_cast<std::ptrdiff_t>(tail), '\n');
  return fmt::format("{}\n[{} lines are omitted here; log.txt has them]{}", log.substr(0, head),
                     left_out, log.substr(tail));
}

// A heading, and a part per run side by side; nothing if no run has any.
template <class Part>
std::string section(std::string_view title, const std::vector<ReportRun>& runs, const Part& part) {
  std::string parts;
  for (const ReportRun& run : runs) {
    const std::string text = part(run);
    if (text.empty()) continue;
    const std::string name = runs.size() > 1 ? "<h3>" + escaped(run.name) + "</h3>\n" : "";
    parts += "<div>\n" + name + text + "</div>\n";
  }
  return parts.empty()
             ? ""
             : fmt::format("<h2>{}</h2>\n<div class=\"columns\">\n{}</div>\n", title, parts);
}

std::string head_of(const std::string& title) {
  const ReportAssets& assets = kReportAssets;
  return fmt::format(
      "{}<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'sha256-{}' 'sha256-{}'; base-uri 'none'; form-action "
      "'none'\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{} - lamina</title>\n<style>\n{}\n{}</style>\n</head>\n",
      kReportPageStart, assets.library_sha256, assets.script_sha256, escaped(title),
      assets.library_style, assets.style);
}

std::string scripts_of(const std::vector<ReportRun>& runs) {
  std::vector<std::string> names;
  std::vector<const std::vector<ReportCurve>*> curves;
  for (const ReportRun& run : runs) {
    names.push_back(run.name);
    curves.push_back(&run.curves);
  }
  return fmt::format(
      "<script type=\"application/json\" id=\"data\">{}</script>\n<script>{}</script>\n"
      "<script>{}</script>\n",
      script_json(curves_json(names, curves, kCurveBytes)), kReportAssets.library,
      kReportAssets.script);
}

}  // namespace

std::string report_page(const std::vector<ReportRun>& runs, const std::string& footer) {
  const std::string title = title_of(runs);
  std::string out = head_of(title) + "<body>\n<header><h1>" + escaped(title) + "</h1></header>\n" +
                    facts_of(runs);
  out += section("Steps that failed or were skipped", runs, [](const ReportRun& run) {
    std::string parts;
    for (const ReportBadStep& step : run.bad_steps) parts += text_of(step);
    return parts;
  });
  out +=
      "<div id=\"tools\"></div>\n<main id=\"charts\"></main>\n"
      "<noscript><p>Curves need JavaScript; metrics.jsonl has the numbers.</p></noscript>\n";
  out += section("Samples", runs, [](const ReportRun& run) { return samples_of(run.samples); });
  if (runs.size() > 1) out += differing_settings(runs);
  const auto text = [](std::string_view content) {
    return content.empty() ? "" : "<pre class=\"long\">" + escaped(content) + "</pre>\n";
  };
  out += section("Settings", runs, [&](const ReportRun& run) { return text(run.settings); });
  out += section("Log", runs, [&](const ReportRun& run) {
    return text(shortened_log(run.log, kLogBytes / runs.size()));
  });
  out += "<footer>" + escaped(footer) +
         "\n<details><summary>Curves are drawn by dygraphs; its licence</summary>\n<pre>" +
         escaped(kReportAssets.library_licence) + "</pre>\n</details></footer>\n";
  return out + scripts_of(runs) + "</body>\n</html>\n";
}

}  // namespace lamina::cli
