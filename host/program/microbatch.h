// Rows of tokens for one pass through a model.
#pragma once

#include <algorithm>
#include <cstdint>

#include "program/bound_program.h"

namespace lamina::program {

// Embedding overrides: rows that replace the embeddings of placeholder tokens, for programs whose
// GraphFeatures::embedding_overrides has R rows and DeepStack features of L layers. Borrowed.
struct OverrideRows {
  const std::byte* rows = nullptr;          // [R, D] in the type of activations
  const std::byte* features = nullptr;      // [L R, D] in that type: DeepStack features
  const std::int32_t* index = nullptr;      // [B, T]: the row that replaces the token, or -1
  const std::int32_t* blocks = nullptr;     // [B, T]: the number of the token's image, from 1, or 0
  const std::int32_t* positions = nullptr;  // [3, B, T] with positions_3d

  void bind(BoundProgram& program) const {
    program.bind(decoder::Input::embedding_overrides, rows);
    program.bind(decoder::Input::deepstack_features, features);
    program.bind(decoder::Input::override_index, index);
    program.bind(decoder::Input::image_blocks, blocks);
    program.bind(decoder::Input::positions_3d, positions);
  }
};

// [rows, tokens] each, row-major, borrowed.
struct Microbatch {
  const std::int32_t* tokens;
  const std::int32_t* labels;  // of the same position: the following token; negative: not counted
  const std::int32_t* positions;
  const std::int32_t* segments;
  const float* reference = nullptr;  // [rows, S]; null for tasks without a reference
  const OverrideRows* overrides = nullptr;

  // Binds the rows as inputs of a program, which only reads them.
  void bind(BoundProgram& program) const {
    program.bind(decoder::Input::tokens, tokens);
    program.bind(decoder::Input::labels, labels);
    program.bind(decoder::Input::positions, positions);
    program.bind(decoder::Input::segments, segments);
    if (reference) program.bind(decoder::Input::reference, reference);
    if (overrides) overrides->bind(program);
  }
};

inline std::int64_t count_labels(const std::int32_t* labels, std::int64_t n) {
  return std::count_if(labels, labels + n, [](std::int32_t label) { return label >= 0; });
}

}  // namespace lamina::program
