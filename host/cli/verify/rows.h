// Rows of tokens of a golden case, ready to be bound: labels moved to the token before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/verify/case.h"
#include "decoder/bound_program.h"
#include "train/train_step.h"

namespace lamina::cli {

struct Rows {
  std::int64_t batch = 0, tokens = 0;
  std::vector<std::int32_t> ids, labels, positions, segments;  // [batch, tokens]

  // "<prefix>input_ids" and what goes with them.
  Rows(const GoldenCase& c, const std::string& prefix);
  // One document a row. Labels are of the token itself, as cases have them.
  Rows(std::vector<std::int32_t> all_ids, const std::vector<std::int32_t>& unshifted,
       std::int64_t b, std::int64_t t);

  bool packed() const;
  train::Microbatch microbatch() const {
    return {ids.data(), labels.data(), positions.data(), segments.data()};
  }
  // Tokens, labels, positions, segments. The rows must stay where they are.
  void bind(decoder::BoundProgram& program) const;

 private:
  void set_labels(const std::vector<std::int32_t>& unshifted);
};

// Once, in memory of its own. REQUIRES: everything is bound.
void run(decoder::BoundProgram& program, const Backend& backend);

}  // namespace lamina::cli
