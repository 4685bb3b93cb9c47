// A GGUF file: metadata, tensors as weights, its config, its vocabulary.
#include "fuzz/tokenizer_use.h"
#include "io/gguf_config.h"
#include "io/gguf_end_tokens.h"
#include "io/stored_weight.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  const std::string path = fuzz::write("m.gguf", fuzz::text_of(data, size));
  fuzz::refuse_or_accept([&] {
    const io::WeightFiles files(path);
    fuzz::refuse_or_accept([&] {
      static_cast<void>(io::gguf_config(*files.gguf(), "tiny", "from_gguf").json.size() +
                        io::gguf_end_tokens(files.gguf()->first()).size());
    });
    for (std::string_view name : files.names())
      fuzz::refuse_or_accept([&] {
        const io::StoredWeight weight(files, name);
        const std::int64_t count = std::min<std::int64_t>(weight.shape().num_elements(), 1 << 12);
        std::vector<float> values(static_cast<std::size_t>(count));
        weight.decode(0, 1, values);
        if (count > 1) weight.decode(1, 1, std::span(values).first(values.size() - 1));
      });
    fuzz::use_tokenizer();
  });
  return 0;
}
