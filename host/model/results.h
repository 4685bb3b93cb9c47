// Errors of computations whose results are not finite.
//
//   const decode::Generated out =
//       model::with_named_weights(m, [&] { return decode::generate(session, ..); });
#pragma once

#include "core/error.h"
#include "model/load.h"

namespace lamina::model {

// Throws the error of results that are not finite: if a weight in the files is not finite either,
// the error of the weight (exit 4), else `text` (exit 3), with advice if it has none.
[[noreturn]] void refuse_results(const Loaded& m, ErrorText text);

// Calls `compute`. An error of class numerical becomes the error of refuse_results().
template <typename Compute>
auto with_named_weights(const Loaded& m, const Compute& compute) {
  try {
    return compute();
  } catch (const UserError& error) {
    if (error.code() == ExitCode::numerical) refuse_results(m, error.text());
    throw;
  }
}

}  // namespace lamina::model
