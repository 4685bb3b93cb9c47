#include "conformance/process/scratch_folder.h"

#include <stdlib.h>

#include <system_error>

#include "core/error.h"

namespace lamina::conformance {

ScratchFolder::ScratchFolder() {
  std::error_code error;
  std::string pattern = std::filesystem::temp_directory_path(error) / "lamina-check-XXXXXX";
  if (error || mkdtemp(pattern.data()) == nullptr)
    throw DeviceError(ExitCode::checkpoint, {pattern,
                                             "cannot create a folder for files of a check",
                                             {"set TMPDIR to a writable folder"}});
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace lamina::conformance
