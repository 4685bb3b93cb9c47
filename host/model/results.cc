#include "model/results.h"

#include <utility>

#include "weights/check/finite.h"

namespace lamina::model {

void refuse_results(const Loaded& m, ErrorText text) {
  weights::require_finite(m.model(), *m.opened.weight_files());
  if (text.notes.empty())
    text.notes.emplace_back(
        "the weights are finite, but the type of the products is too coarse for them: with "
        "bfloat16, try --dtype float32");
  throw UserError(ExitCode::numerical, std::move(text));
}

}  // namespace lamina::model
