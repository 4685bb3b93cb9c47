// A run as one HTML page: curves, samples, settings. Nothing is read from outside the page.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lamina::cli {

struct ReportPoint {
  double step, value;
  std::string text;  // the value as the file has it
};

// The numbers of metrics.jsonl under one name, in the order of the steps.
struct ReportCurve {
  std::string name;
  std::vector<ReportPoint> points;
};

// Numbers of each line; values that are not numbers are left out. Errors (exit 4): a damaged line.
std::vector<ReportCurve> read_curves(const std::string& metrics_path);

// What the model made of prompts, and when.
struct ReportSamples {
  std::string when;                                          // "Step 100"
  std::vector<std::pair<std::string, std::string>> samples;  // prompts and what follows
};

// Those of train.sample_every_steps, in the order of the steps. Errors likewise.
std::vector<ReportSamples> read_samples(const std::string& metrics_path);

// A step that was not finite, or was left out: rows of a table, and the text that was read.
struct ReportBadStep {
  std::string title;  // "Step 12: not finite"
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<std::pair<std::string, std::string>> rows;  // place and text
};

// Those of a run directory. Errors (exit 4): a damaged file.
std::vector<ReportBadStep> read_bad_steps(const std::string& run);

struct Report {
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts;  // rows of the table on top
  std::vector<ReportCurve> curves;
  std::vector<ReportSamples> samples;
  std::vector<ReportBadStep> bad_steps;
  std::string settings;  // config.toml
  std::string log;       // log.txt
};

std::string report_page(const Report& report);

}  // namespace lamina::cli
