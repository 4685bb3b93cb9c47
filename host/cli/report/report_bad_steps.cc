// Reads the steps that were not finite or were skipped, for the page of a run.
#include <fmt/format.h>

#include "cli/report/report_page.h"
#include "train/loop/bad_step.h"

namespace lamina::cli {

std::vector<ReportBadStep> read_bad_steps(const std::string& run) {
  std::vector<ReportBadStep> out;
  for (const train::BadStepRecord& record : train::read_bad_steps(run)) {
    ReportBadStep& step = out.emplace_back();
    step.title = fmt::format("Step {}: {}", record.step,
                             record.is_spike ? "skipped as a spike" : "not finite");
    step.facts = {{"loss", record.loss}, {"gradient norm", record.gradient_norm}};
    if (!record.weight.empty()) step.facts.emplace_back("weight before the step", record.weight);
    if (!record.origin.empty()) step.facts.emplace_back("began with", record.origin);
    for (const train::BadStepRecord::Row& row : record.rows)
      step.rows.emplace_back(
          fmt::format("epoch {}, row {}, microbatch {}", row.epoch, row.index, row.microbatch),
          row.text);
  }
  return out;
}

}  // namespace lamina::cli
