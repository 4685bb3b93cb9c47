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

struct Report {
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts;  // rows of the table on top
  std::vector<ReportCurve> curves;
  std::vector<ReportSamples> samples;
  std::string settings;  // config.toml
  std::string log;       // log.txt
};

std::string report_page(const Report& report);

}  // namespace lamina::cli
