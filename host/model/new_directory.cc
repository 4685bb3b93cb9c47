#include "model/new_directory.h"

#include <fmt/format.h>

#include "core/error.h"
#include "train/loop/file_owner.h"
#include "weights/publish/hf_export.h"

namespace lamina::model {

void check_new_directory(const std::string& to) {
  weights::require_absent(to);
  for (const char* ending : {".gguf", ".safetensors"})
    if (to.ends_with(ending))
      throw UserError(ExitCode::usage,
                      {"--to",
                       fmt::format("'{}' is the name of a file, but a directory is written", to),
                       {fmt::format("remove {}; the directory has model.safetensors, and no GGUF "
                                    "files are written",
                                    ending)}});
  const auto owner = train::file_owner(to);
  if (owner && owner->is_closed)
    throw UserError(ExitCode::usage, {"--to",
                                      fmt::format("'{}' {}", to, train::inside_in_words(*owner)),
                                      {"choose a directory outside its checkpoints"}});
}

}  // namespace lamina::model
