#include "cli/report/report_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "core/error.h"
#include "core/json.h"
#include "core/json_writer.h"
#include "core/read_file.h"

namespace lamina::cli {
namespace {

constexpr std::size_t kMaxMetricsBytes = std::size_t{16} << 30;
constexpr std::size_t kBytesPerValue = 7;  // "4.1234,"
constexpr std::size_t kMinPoints = 40;     // per curve, for any number of curves

// The object of one line. Training writes whole lines, so a last line without a line feed that does
// not parse was cut off.
JsonDocument parse_metrics_line(const std::string& line, const std::string& path,
                                std::int64_t number, bool ends_whole) {
  const std::string where = fmt::format("{}: line {}", path, number);
  try {
    return JsonDocument::parse(line, where, {.code = ExitCode::checkpoint, .part = "line"});
  } catch (const UserError&) {
    if (ends_whole) throw;
    throw UserError(
        ExitCode::checkpoint,
        {where,
         fmt::format("is cut off after {} bytes; expected a whole JSON object", line.size()),
         {"`lamina train` removes an incomplete line when it resumes the run; otherwise remove "
          "it"}});
  }
}

class MetricsReader {
 public:
  void add(const JsonValue& line) {
    const double step = line.at("step").as_double();
    for (const auto& [key, value] : line.members()) {
      if (key == "step" || !value.is_number()) continue;
      const auto [at, is_new] = place_.try_emplace(std::string(key), out.curves.size());
      if (is_new) out.curves.push_back({std::string(key), {}});
      out.curves[at->second].points.push_back({step, value.as_double()});
    }
    const JsonValue samples = line.find("samples");
    if (!samples) return;
    ReportSamples& made = out.samples.emplace_back(
        ReportSamples{fmt::format("Step {}", line.at("step").as_int64()), {}});
    for (const JsonValue sample : samples.elements())
      made.samples.emplace_back(sample.at("prompt").as_string(), sample.at("text").as_string());
  }

  ReportMetrics out;

 private:
  std::unordered_map<std::string, std::size_t> place_;  // by the curve's name
};

// A curve in which groups of `per` points were replaced by their mean, at the last point's step.
struct ShortCurve {
  std::vector<double> steps, values;
  std::size_t per = 1;
};

ShortCurve shortened(const std::vector<ReportPoint>& points, std::size_t per) {
  ShortCurve out;
  out.per = per;
  for (std::size_t first = 0; first < points.size(); first += out.per) {
    const std::size_t end = std::min(first + out.per, points.size());
    double sum = 0;
    for (std::size_t i = first; i < end; ++i) sum += points[i].value;
    out.steps.push_back(points[end - 1].step);
    out.values.push_back(sum / static_cast<double>(end - first));
  }
  return out;
}

// "train/activation_mean/layer_003"
bool is_of_a_layer(const ReportCurve& curve) {
  return curve.name.find("/layer_") != curve.name.npos;
}

void write_grid(JsonWriter& json, const ShortCurve& curve) {
  const std::vector<double>& steps = curve.steps;
  const double by = steps.size() > 1 ? steps[1] - steps[0] : 1;
  bool is_regular = true;
  for (std::size_t i = 1; i < steps.size(); ++i) is_regular &= steps[i] - steps[i - 1] == by;
  json.begin_object();
  if (is_regular) {
    json.key("first").raw(fmt::format("{}", steps[0])).key("by").raw(fmt::format("{}", by));
    json.key("count").value(steps.size());
  } else {
    json.key("steps").begin_array();
    for (const double step : steps) json.raw(fmt::format("{}", step));
    json.end_array();
  }
  json.key("per").value(curve.per).end_object();
}

}  // namespace

ReportMetrics read_metrics(const std::string& path) {
  const std::string text = read_file(path, ExitCode::checkpoint, kMaxMetricsBytes);
  MetricsReader reader;
  std::int64_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t feed = text.find('\n', at);
    const std::size_t end = std::min(feed, text.size());
    const JsonDocument line =
        parse_metrics_line(text.substr(at, end - at), path, ++number, feed != text.npos);
    reader.add(line.root());
    at = end + 1;
  }
  return std::move(reader.out);
}

std::string curves_json(const std::vector<std::string>& names,
                        const std::vector<const std::vector<ReportCurve>*>& runs,
                        std::size_t max_bytes) {
  // Half of the room is for the curves of single layers; there may be hundreds.
  std::size_t num_layer_curves = 0, num_curves = 0, longest = 0;
  for (const auto* curves : runs)
    for (const ReportCurve& curve : *curves) {
      ++(is_of_a_layer(curve) ? num_layer_curves : num_curves);
      longest = std::max(longest, curve.points.size());
    }
  const std::size_t share = num_layer_curves > 0 && num_curves > 0 ? max_bytes / 2 : max_bytes;
  const auto max_points = [&](std::size_t of_curves) {
    return std::max(kMinPoints, share / kBytesPerValue / std::max<std::size_t>(of_curves, 1));
  };
  std::map<std::pair<std::vector<double>, std::size_t>, std::size_t> grid_of;
  JsonWriter grids, values;
  grids.begin_array();
  values.begin_array();
  for (std::size_t run = 0; run < runs.size(); ++run)
    for (const ReportCurve& curve : *runs[run]) {
      const std::size_t most = max_points(is_of_a_layer(curve) ? num_layer_curves : num_curves);
      // One number for all long curves, so that runs of different lengths have values at the same
      // steps. Validation curves are short.
      const bool is_short = curve.points.size() <= most / 4;
      const ShortCurve made = shortened(curve.points, is_short ? 1 : (longest + most - 1) / most);
      const auto [grid, is_new] = grid_of.try_emplace({made.steps, made.per}, grid_of.size());
      if (is_new) write_grid(grids, made);
      values.begin_object().key("run").value(run).key("name").value(curve.name);
      values.key("grid").value(grid->second).key("values").begin_array();
      for (const double value : made.values) values.raw(fmt::format("{:.5g}", value));
      values.end_array().end_object();
    }
  JsonWriter json;
  json.begin_object().key("runs").begin_array();
  for (const std::string& name : names) json.value(name);
  json.end_array().key("grids").raw(grids.end_array().text());
  json.key("curves").raw(values.end_array().text()).end_object();
  return json.text();
}

}  // namespace lamina::cli
