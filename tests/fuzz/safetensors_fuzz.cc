// A safetensors file: the header, and each tensor as a view.
#include "fuzz/fuzz.h"
#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  const std::string path = fuzz::write("x.safetensors", fuzz::text_of(data, size));
  fuzz::refuse_or_accept([&] {
    const io::SafetensorsFile file(path);
    unsigned sum = 0;
    for (const io::StoredTensor& tensor : file.tensors()) {
      for (std::byte byte : tensor.bytes) sum += static_cast<unsigned>(byte);
      fuzz::refuse_or_accept([&] { sum += static_cast<unsigned>(file.view(tensor).shape.ndim()); });
    }
    if (sum == 0 && !file.tensors().empty() && file.find("none such") != nullptr) __builtin_trap();
  });
  return 0;
}
