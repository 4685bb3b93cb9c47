#include "model/new_directory.h"

#include <fmt/format.h>

#include "core/error.h"
#include "train/loop/file_owner.h"
#include "weights/publish/hf_export.h"

namespace lamina::model {

void check_new_directory(const std::string& to) {
  weights::require_absent(to);
  const auto owner = train::file_owner(to);
  if (owner && owner->is_closed)
    throw UserError(ExitCode::usage, {"--to",
                                      fmt::format("'{}' {}", to, train::inside_in_words(*owner)),
                                      {"choose a directory outside its checkpoints"}});
}

}  // namespace lamina::model
