// The run under torture: a very small model, 40 steps, a checkpoint every 2, and the result of its
// unbroken run, which every broken run must equal bit by bit.
#pragma once

#include <string>
#include <vector>

#include "torture/campaign.h"

namespace lamina::torture {

inline constexpr int kSteps = 40;
inline constexpr int kHalfSteps = 20;

// Trains the unbroken runs below `place.prepared`: run.toml, text.txt, whole/ (all checkpoints) and
// half/ (the state after step 20); tune.toml, which starts from the weights of whole/, and tuned/.
// Sets place.run_seconds. Throws Failure if a run fails.
void prepare(Place& place);

std::string run_file(const Place& place);
std::string text_file(const Place& place);
std::string whole_run(const Place& place);
std::string half_run(const Place& place);

// "lamina train run.toml --out <folder>/out", or tune.toml, to be modified and started.
Launch train(const Case& c);
// Any other command of the program, in the case's folder, with one thread.
Launch command(const Case& c, std::vector<std::string> words);
std::string out_of(const Case& c);  // <folder>/out

// Continues the training to its end, without faults, and expects the result of the unbroken run of
// that run file: bit-equal weights, moments and losses, complete checkpoints, complete metrics, no
// leftover files. `after` describes the earlier faults, for the report.
void expect_unharmed(Case& c, const std::string& after);

// Expects the weights and moments of the last step to equal the unbroken run's.
void expect_result(const Case& c, const std::string& after);

// Expects every line of metrics.jsonl to be a complete record with the numbers of the unbroken run,
// and the steps to be in order, each exactly once.
void expect_metrics(const Case& c, const std::string& after);

std::string read_bytes(const std::string& path);  // "" if there is no such file
void write_bytes(const std::string& path, const std::string& bytes);
// Copies a folder with its subfolders.
void copy_folder(const std::string& from, const std::string& to);
// The checkpoint folders of a run, oldest first.
std::vector<std::string> checkpoints(const std::string& run);

}  // namespace lamina::torture
