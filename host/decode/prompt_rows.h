// Reads rows for the placeholder tokens of a prompt from a file: the output of an image or audio
// encoder.
//
// A safetensors file with
//   embeddings    [rows, hidden_size]: the input of the first layer
//   deepstack     [layers, rows, hidden_size], optional: added to the output of layers 0, 1, ..
//   grid          [images, 3], optional: each image's rows in time, height and width. Its tokens
//                 have these positions, and later tokens continue after the largest of them: for
//                 models with rotary positions in three dimensions
//   position_ids  [3, tokens], optional, instead of grid: time, height and width of every token
// with any number type. The rows are assigned to the placeholder tokens in order.
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
  // Number of adjacent rows of the largest image.
  std::int64_t longest_image() const;
};

// `placeholders`: the ids that the rows replace. Throws UserError: exit 2 without placeholders;
// exit 4 for an invalid file, naming the tensor and the expected shape; exit 5 if the number of
// rows differs from the number of placeholders in the prompt.
PromptRows read_prompt_rows(const std::string& path, std::span<const std::int32_t> prompt,
                            std::span<const std::int64_t> placeholders,
                            const decoder::Model& model);

}  // namespace lamina::decode
