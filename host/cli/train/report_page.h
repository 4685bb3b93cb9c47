// Runs as one HTML page: curves, samples, settings, logs. Nothing is read from outside the page.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/train/report_metrics.h"

namespace lamina::cli {

// A step that was not finite, or was left out: rows of a table, and the text that was read.
struct ReportBadStep {
  std::string title;  // "Step 12: not finite"
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<std::pair<std::string, std::string>> rows;  // place and text
};

// Those of a run directory. Errors (exit 4): a damaged file.
std::vector<ReportBadStep> read_bad_steps(const std::string& run);

struct ReportRun {
  std::string name;                                        // differs from those of other runs
  std::vector<std::pair<std::string, std::string>> facts;  // rows of the table on top
  std::vector<ReportCurve> curves;
  std::vector<ReportSamples> samples;
  std::vector<ReportBadStep> bad_steps;
  std::string settings;  // config.toml
  std::string log;       // log.txt
};

// The beginning of every page, by which a page of ours is known.
extern const std::string_view kReportPageStart;

// `footer`: a line of text at the end. The page has at most about 300 KB: long curves are means of
// several steps, and the middle of a long log is left out. Only settings, samples and bad steps are
// always whole.
std::string report_page(const std::vector<ReportRun>& runs, const std::string& footer);

}  // namespace lamina::cli
