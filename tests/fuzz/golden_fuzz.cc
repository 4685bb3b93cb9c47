// A golden case as `lamina verify` reads it: golden.json, a zero byte, golden.safetensors.
#include "fuzz/fuzz.h"
#include "inspect/verify/case.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  const std::string_view text = fuzz::text_of(data, size);
  const std::size_t border = std::min(text.find('\0'), size);
  fuzz::write("golden.json", text.substr(0, border));
  fuzz::write("golden.safetensors", text.substr(std::min(border + 1, size)));
  fuzz::refuse_or_accept([&] {
    const inspect::GoldenCase golden(fuzz::folder().path());
    for (const char* key : {"logits_max_abs", "loss_abs"})
      fuzz::refuse_or_accept([&] { golden.tolerance(key, 1); });
    for (std::string_view name : golden.golden.names()) {
      fuzz::refuse_or_accept([&] { golden.floats(name); });
      fuzz::refuse_or_accept([&] { golden.ints(name); });
      fuzz::refuse_or_accept([&] { golden.shape(name); });
    }
  });
  return 0;
}
