// The manifest in a section of a plugin's file.
#include "fuzz/fuzz.h"
#include "registry/manifest.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  fuzz::refuse_or_accept(
      [&] { registry::parse_manifest(fuzz::text_of(data, size), "x.lamina.so"); });
  return 0;
}
