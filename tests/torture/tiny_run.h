// The run that is tortured: a very small model, 40 steps, a checkpoint every 2, and what its
// unbroken run left, to which every broken one is compared bit by bit.
#pragma once

#include <string>
#include <vector>

#include "torture/campaign.h"

namespace lamina::torture {

inline constexpr int kSteps = 40;
inline constexpr int kHalfSteps = 20;

// Trains the unbroken runs below `place.prepared`: run.toml, text.txt, whole/ (all checkpoints) and
// half/ (as it was after step 20); tune.toml, which starts from the weights of whole/, and tuned/.
// Sets place.run_seconds. Throws Failure if that does not work.
void prepare(Place& place);

std::string run_file(const Place& place);
std::string text_file(const Place& place);
std::string whole_run(const Place& place);
std::string half_run(const Place& place);

// "lamina train run.toml --out <folder>/out", or tune.toml: to be changed and started.
Launch train(const Case& c);
// Any other command of the program, in the case's folder, with one thread.
Launch command(const Case& c, std::vector<std::string> words);
std::string out_of(const Case& c);  // <folder>/out

// Trains on to the end, without faults, and expects what the unbroken run of that run file gave:
// weights, moments and losses to the bit, whole checkpoints, whole metrics, nothing left over.
// `after` says what was done before, for the report.
void expect_unharmed(Case& c, const std::string& after);

// Of these: weights and moments of the last step as in the unbroken run.
void expect_result(const Case& c, const std::string& after);

// That every line of metrics.jsonl is a whole record with the numbers of the unbroken run, that no
// step is missing or there twice, and that all are in order.
void expect_metrics(const Case& c, const std::string& after);

std::string read_bytes(const std::string& path);  // "" if there is no such file
void write_bytes(const std::string& path, const std::string& bytes);
// Files and folders below.
void copy_folder(const std::string& from, const std::string& to);
// The checkpoint folders of a run, oldest first.
std::vector<std::string> checkpoints(const std::string& run);

}  // namespace lamina::torture
