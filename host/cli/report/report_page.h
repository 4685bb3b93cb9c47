// Writes runs as one HTML page: curves, samples, settings, logs. The page loads nothing else.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/report/report_metrics.h"

namespace lamina::cli {

// A step that was not finite or was skipped: rows of a table, and the text that was read.
struct ReportBadStep {
  std::string title;  // "Step 12: not finite"
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<std::pair<std::string, std::string>> rows;  // place and text
};

// The bad steps of a run directory. Errors (exit 4): a damaged file.
std::vector<ReportBadStep> read_bad_steps(const std::string& run);

struct ReportRun {
  std::string name;                                        // unique among the runs
  std::vector<std::pair<std::string, std::string>> facts;  // rows of the first table
  std::vector<ReportCurve> curves;
  std::vector<ReportSamples> samples;
  std::vector<ReportBadStep> bad_steps;
  std::string settings;  // config.toml
  std::string log;       // log.txt
};

// The beginning of every page, which identifies a page of ours.
extern const std::string_view kReportPageStart;

// `footer`: a line of text at the end. The page has at most about 300 KB: long curves are means of
// several steps, and the middle of a long log is omitted. Settings, samples and bad steps are
// always complete.
std::string report_page(const std::vector<ReportRun>& runs, const std::string& footer);

}  // namespace lamina::cli
