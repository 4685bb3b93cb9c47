// docs/ops.md: every op as its row and its file describe it.
#pragma once

#include <string>

namespace lamina::ops {

// Markdown: the ops that plugins may emit in full, then the host's own in short.
std::string reference_page();

}  // namespace lamina::ops
