// Version of this program, for --version and for the record of each run.
#pragma once

#include <string>

namespace lamina::cli {

struct Version {
  std::string program;   // "0.1.0"
  std::string revision;  // short git revision, with "+" when the tree had changes; "" without git
};

const Version& version();

// "lamina 0.1.0 (1a2b3c4)"
std::string version_line();

}  // namespace lamina::cli
