// Writes the files that a page adds to the tree or changes: docs_apply_page PAGE SOURCE OUT
#include <cstdio>
#include <exception>

#include "docs/page.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: docs_apply_page PAGE SOURCE OUT\n", stderr);
    return 2;
  }
  try {
    using namespace lamina::testing;
    apply_additions(additions_of(argv[2], argv[1]), argv[2], argv[3]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
  return 0;
}
