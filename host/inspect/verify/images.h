// image.* of a golden case: rows of tokens with images among them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "decode/prompt_rows.h"
#include "inspect/verify/case.h"
#include "program/bound_program.h"

namespace lamina::inspect {

// The output of an image encoder, and its positions in image.input_ids.
class ImageInputs {
 public:
  // `placeholders`: the ids that the rows replace. For programs that compute in `dtype`.
  ImageInputs(const GoldenCase& c, std::span<const std::int64_t> placeholders,
              const decoder::Model& model, DType dtype);

  decoder::EmbeddingOverrideShape shape() const { return shape_; }
  // [3, B, T]
  std::span<const std::int32_t> positions() const { return rows_.positions; }
  // Binds rows, features and their tokens. The object must not be moved afterwards.
  void bind(program::BoundProgram& program) const;
  // The part for the first `tokens` tokens of the first row.
  decode::PromptRows prompt(std::int64_t tokens) const;

 private:
  decode::PromptRows rows_;
  std::vector<std::int32_t> blocks_;  // the image of each token
  std::int64_t batch_ = 0, tokens_ = 0;
  decoder::EmbeddingOverrideShape shape_;
  std::vector<std::byte> row_bytes_, feature_bytes_;
};

}  // namespace lamina::inspect
