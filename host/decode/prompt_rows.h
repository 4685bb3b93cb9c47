// Rows for the placeholder tokens of a prompt, from a file: the output of an image or audio
// encoder.
//
// A safetensors file with
//   embeddings    [rows, hidden_size]: as they enter the first layer
//   deepstack     [layers, rows, hidden_size], optional: added to the output of layers 0, 1, ..
//   grid          [images, 3], optional: each image's rows in time, height and width. Its tokens
//                 have these places, and tokens after it continue after the largest of them: for
//                 models whose rotations are of three positions
//   position_ids  [3, tokens], optional, in place of grid: time, height and width of every token
// of any type of numbers. Rows stand at the placeholder tokens one after the other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "decode/session.h"

namespace lamina::decode {

struct PromptRows {
  std::vector<float> rows, features;
  std::vector<std::int32_t> index, positions;

  decode::EmbeddingOverrides overrides() const { return {rows, index, features, positions}; }
  // Of the rows that follow each other.
  std::int64_t longest_image() const;
};

// `placeholders`: the ids that rows stand for. Throws UserError: exit 2 without placeholders; exit
// 4 for a file that is none of these, naming the tensor and the shape that would be right; exit 5
// for another number of rows than the prompt has placeholders.
PromptRows read_prompt_rows(const std::string& path, std::span<const std::int32_t> prompt,
                            std::span<const std::int64_t> placeholders,
                            const decoder::Model& model);

}  // namespace lamina::decode
