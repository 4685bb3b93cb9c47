// A plugin's file: ELF headers, tables and manifest. No code of it is executed.
#include "fuzz/fuzz.h"
#include "registry/elf_file.h"
#include "registry/manifest.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  const std::string path = fuzz::write("x.lamina.so", fuzz::text_of(data, size));
  fuzz::refuse_or_accept(
      [&] { registry::parse_manifest(registry::read_elf(path).manifest, path); });
  return 0;
}
