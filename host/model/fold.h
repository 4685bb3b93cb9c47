// Models of families whose exports are another family's: the parameters of that one are made of
// their own, by the graphs of their blocks.
#pragma once

#include <memory>
#include <string>

#include "decoder/model.h"
#include "model/open.h"
#include "model/scratch_model.h"
#include "registry/discovery.h"
#include "runtime/backend.h"

namespace lamina::model {

// A model in lamina's own form, in a directory that is removed with this.
class FoldedModel {
 public:
  // Of a model with weights; the directory is made beside `to`. REQUIRES: its options name one in
  // exports_as. Errors: exit 8 where a block lacks a parameter of the other family; exit 4 for
  // damaged weights, or when the disk is full.
  FoldedModel(const OpenedModel& from, const std::string& to, const registry::Catalog& plugins,
              const Backend& backend);

  const decoder::Model& model() const { return *model_; }
  const std::string& directory() const { return scratch_.directory(); }

 private:
  ScratchModel scratch_;
  std::unique_ptr<decoder::Model> model_;
};

}  // namespace lamina::model
