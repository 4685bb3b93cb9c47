#include "cli/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>

#include "core/error.h"
#include "core/json.h"
#include "core/json_writer.h"

namespace lamina::cli {
namespace {

constexpr double kWidth = 640, kHeight = 220, kLeft = 70, kBottom = 24, kTop = 8;

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
    else if (static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\t')
      out += ' ';
    else
      out += c;
  }
  return out;
}

struct Range {
  double low, high;
  // 0 at the low end, 1 at the high one.
  double place(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

Range range_of(const std::vector<ReportPoint>& points, double ReportPoint::*field) {
  Range out{INFINITY, -INFINITY};
  for (const ReportPoint& p : points) {
    out.low = std::min(out.low, p.*field);
    out.high = std::max(out.high, p.*field);
  }
  return out;
}

std::string svg_of(const ReportCurve& curve) {
  const Range steps = range_of(curve.points, &ReportPoint::step),
              values = range_of(curve.points, &ReportPoint::value);
  std::string line;
  for (const ReportPoint& p : curve.points)
    line += fmt::format("{:.1f},{:.1f} ", kLeft + steps.place(p.step) * (kWidth - kLeft - 8),
                        kTop + (1 - values.place(p.value)) * (kHeight - kTop - kBottom));
  const double bottom = kHeight - kBottom;
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n"
      "<path class=\"axis\" d=\"M{} {}V{}H{}\"/>\n<polyline points=\"{}\"/>\n",
      kWidth, kHeight, escaped(curve.name), kLeft, kTop, bottom, kWidth - 8, line);
  if (curve.points.size() == 1)  // a line of one point shows nothing
    out += fmt::format("<circle r=\"3\" cx=\"{}\" cy=\"{}\"/>\n", line.substr(0, line.find(',')),
                       line.substr(line.find(',') + 1, line.find(' ') - line.find(',') - 1));
  const auto label = [&](double x, double y, const char* anchor, double value) {
    out += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"{}\">{:.6g}</text>\n", x, y,
                       anchor, value);
  };
  label(kLeft - 6, kTop + 10, "end", values.high);
  label(kLeft - 6, bottom, "end", values.low);
  label(kLeft, kHeight - 6, "start", steps.low);
  label(kWidth - 8, kHeight - 6, "end", steps.high);
  return out + "</svg>\n";
}

std::string numbers_of(const ReportCurve& curve) {
  std::string out = "<details><summary>numbers</summary><table><tr><th>step</th><th>" +
                    escaped(curve.name) + "</th></tr>\n";
  for (const ReportPoint& p : curve.points)
    out += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", p.step, escaped(p.text));
  return out + "</table></details>\n";
}

constexpr const char* kStyle =
    "body{font:15px/1.5 sans-serif;max-width:720px;margin:2em auto;padding:0 1em;color:#222;"
    "background:#fff}\n"
    "h1{font-size:1.5em}h2{font-size:1.1em;margin-top:2em}h3{font-size:1em;margin-bottom:0}\n"
    "svg{width:100%;height:auto}polyline{fill:none;stroke:#2563a8;stroke-width:1.5}\n"
    "circle{fill:#2563a8}.axis{fill:none;stroke:#999}text{font-size:11px;fill:#555}\n"
    "pre{overflow-x:auto;background:#f4f4f4;padding:.6em;font-size:12px}\n"
    "table{border-collapse:collapse}td,th{padding:0 .8em 0 0;text-align:left}\n";

std::string table_of(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string out = "<table>\n";
  for (const auto& [name, value] : facts)
    out += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escaped(name), escaped(value));
  return out + "</table>\n";
}

std::string text_of(const ReportBadStep& step) {
  std::string out = "<h3>" + escaped(step.title) + "</h3>\n" + table_of(step.facts) +
                    "<details><summary>rows that were read</summary>\n";
  for (const auto& [place, text] : step.rows)
    out += "<p>" + escaped(place) + "</p>\n<pre>" + escaped(text) + "</pre>\n";
  return out + "</details>\n";
}

// Calls `read` for each object of metrics.jsonl.
void for_each_line(const std::string& path, const std::function<void(const JsonValue&)>& read) {
  std::ifstream in(path);
  std::int64_t number = 0;
  for (std::string line; std::getline(in, line);)
    read(JsonDocument::parse(line, fmt::format("{}: line {}", path, ++number),
                             {.code = ExitCode::checkpoint})
             .root());
}

}  // namespace

std::vector<ReportCurve> read_curves(const std::string& metrics_path) {
  std::vector<ReportCurve> out;
  for_each_line(metrics_path, [&out](const JsonValue& line) {
    const double step = line.at("step").as_double();
    for (const auto& [key, value] : line.members()) {
      if (key == "step" || !value.is_number()) continue;
      auto curve = std::ranges::find(out, key, &ReportCurve::name);
      if (curve == out.end()) curve = out.insert(out.end(), {std::string(key), {}});
      JsonWriter text;
      curve->points.push_back({step, value.as_double(), text.value(value).text()});
    }
  });
  return out;
}

std::vector<ReportSamples> read_samples(const std::string& metrics_path) {
  std::vector<ReportSamples> out;
  for_each_line(metrics_path, [&out](const JsonValue& line) {
    const JsonValue samples = line.find("samples");
    if (!samples) return;
    ReportSamples& step =
        out.emplace_back(ReportSamples{fmt::format("Step {}", line.at("step").as_int64()), {}});
    for (const JsonValue sample : samples.elements())
      step.samples.emplace_back(sample.at("prompt").as_string(), sample.at("text").as_string());
  });
  return out;
}

std::string report_page(const Report& report) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<title>{0}</title>\n<style>\n{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
      escaped(report.title), kStyle);
  out += table_of(report.facts);
  if (!report.bad_steps.empty()) out += "<h2>Steps that failed or were left out</h2>\n";
  for (const ReportBadStep& step : report.bad_steps) out += text_of(step);
  out += "<h2>Curves</h2>\n";
  for (const ReportCurve& curve : report.curves)
    out += "<h3>" + escaped(curve.name) + "</h3>\n" + svg_of(curve) + numbers_of(curve);
  if (!report.samples.empty()) out += "<h2>Samples</h2>\n";
  for (const ReportSamples& samples : report.samples) {
    out += "<h3>" + escaped(samples.when) + "</h3>\n";
    for (const auto& [prompt, text] : samples.samples)
      out += "<pre><b>" + escaped(prompt) + "</b>" + escaped(text) + "</pre>\n";
  }
  out += "<h2>Settings</h2>\n<pre>" + escaped(report.settings) + "</pre>\n<h2>Log</h2>\n<pre>" +
         escaped(report.log) + "</pre>\n";
  return out + "</body>\n</html>\n";
}

}  // namespace lamina::cli
