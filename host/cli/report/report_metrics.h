// Reads metrics.jsonl of a run, for its page.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lamina::cli {

struct ReportPoint {
  double step, value;
};

// The numbers of metrics.jsonl under one name, in the order of the steps.
struct ReportCurve {
  std::string name;
  std::vector<ReportPoint> points;
};

// Continuations of prompts, and the time of their making.
struct ReportSamples {
  std::string when;                                          // "Step 100"
  std::vector<std::pair<std::string, std::string>> samples;  // prompts and continuations
};

struct ReportMetrics {
  std::vector<ReportCurve> curves;     // values that are not numbers are skipped
  std::vector<ReportSamples> samples;  // of train.sample_every_steps, in the order of the steps
};

// Errors (exit 4): a file that cannot be read, a damaged line, a line that is cut off.
ReportMetrics read_metrics(const std::string& path);

// The curves of several runs as the JSON that curves.js reads, in at most about `max_bytes`:
//   {"runs":["a"],"grids":[{"first":4,"by":4,"count":25,"per":4}],
//    "curves":[{"run":0,"name":"train/loss","grid":0,"values":[4.1,3.9]}]}
// A grid has the steps of curves: regular ones as here, or all in "steps". A value is the mean of
// the `per` points that end at its step. REQUIRES: as many names as `runs`.
std::string curves_json(const std::vector<std::string>& names,
                        const std::vector<const std::vector<ReportCurve>*>& runs,
                        std::size_t max_bytes);

}  // namespace lamina::cli
