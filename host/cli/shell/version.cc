// The version of the build; LAMINA_REVISION comes from a header that is renewed at each build.
#include "cli/shell/version.h"

#include "revision.h"

namespace lamina::cli {

const Version& version() {
  static const Version instance = {LAMINA_VERSION, LAMINA_REVISION};
  return instance;
}

std::string version_line() {
  std::string out = "lamina " + version().program;
  if (!version().revision.empty()) out += " (" + version().revision + ")";
  return out;
}

}  // namespace lamina::cli
