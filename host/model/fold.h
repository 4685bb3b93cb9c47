// Models of families that export as another family: the parameters of that family are computed from
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

// A model in lamina's own form, in a directory that is removed with this object.
class FoldedModel {
 public:
  // Builds it from a model with weights; the directory is created beside `to`. REQUIRES: its
  // options set exports_as. Errors: exit 8 if a block does not provide a parameter of the other
  // family; exit 4 for damaged weights, or if the disk is full.
  FoldedModel(const OpenedModel& from, const std::string& to, const registry::Catalog& plugins,
              const Backend& backend);

  const decoder::Model& model() const { return *model_; }
  const std::string& directory() const { return scratch_.directory(); }

 private:
  ScratchModel scratch_;
  std::unique_ptr<decoder::Model> model_;
};

}  // namespace lamina::model
