// Shows a run of `lamina train`: a banner, progress, a curve, and the next command.
#pragma once

#include <functional>
#include <string>

#include "cli/shell/command.h"
#include "cli/train/training_profile.h"
#include "model/text_samples.h"
#include "train/loop/run.h"

namespace lamina::cli {

// The command line that resumes this run.
std::string resume_command(const Arguments& a);

void print_banner(const decoder::Model& model, const config::RunConfig& c, train::Run& run);

// Optional actions beside training; null: none.
struct Extras {
  model::TextSamples* samples = nullptr;
  TrainingProfile* profile = nullptr;
  std::function<void()> begin_writer = {};  // called first on the thread that writes checkpoints
};

// Runs the loop and shows it; returns the exit code. Throws StopAsked before the first step.
int run_and_show(const Arguments& arguments, const config::RunConfig& c,
                 const decoder::Model& model, train::Run& run, const Extras& extras);

}  // namespace lamina::cli
