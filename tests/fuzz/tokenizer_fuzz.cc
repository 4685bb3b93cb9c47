// tokenizer.json: an accepted file encodes a text and decodes every id.
#include "fuzz/tokenizer_use.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  fuzz::write("tokenizer.json", fuzz::text_of(data, size));
  fuzz::use_tokenizer();
  return 0;
}
