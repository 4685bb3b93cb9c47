// What `lamina eval` is to measure: a model and rows of text, from its options.
#pragma once

#include <memory>
#include <vector>

#include "cli/command.h"
#include "data/dataset.h"
#include "io/weight_files.h"
#include "model/open.h"

namespace lamina::cli {

struct EvalSubject {
  model::OpenedModel opened;
  std::shared_ptr<const io::WeightFiles> files;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::vector<data::Dataset> rows;  // one
  DType dtype = DType::bf16;
};

EvalSubject find_eval_subject(const Arguments& a);

}  // namespace lamina::cli
