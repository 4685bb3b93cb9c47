// Rows of tokens that one pass through a model reads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "program/bound_program.h"

namespace lamina::program {

// [rows, tokens] each, row-major, borrowed.
struct Microbatch {
  const std::int32_t* tokens;
  const std::int32_t* labels;  // of the same position: the token that follows; negative = none
  const std::int32_t* positions;
  const std::int32_t* segments;
  const float* reference = nullptr;  // [rows, S], where the task compares with one

  // As inputs of a program, which only reads them.
  void bind(BoundProgram& program) const {
    auto writable = [](const std::int32_t* p) { return const_cast<std::int32_t*>(p); };
    program.bind(decoder::Input::tokens, writable(tokens));
    program.bind(decoder::Input::labels, writable(labels));
    program.bind(decoder::Input::positions, writable(positions));
    program.bind(decoder::Input::segments, writable(segments));
    if (reference) program.bind(decoder::Input::reference, const_cast<float*>(reference));
  }
};

inline std::int64_t count_labels(const std::int32_t* labels, std::int64_t n) {
  return std::count_if(labels, labels + n, [](std::int32_t label) { return label >= 0; });
}

}  // namespace lamina::program
