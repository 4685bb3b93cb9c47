// model.safetensors.index.json next to two existing shards, a.safetensors and b.safetensors.
#include <cstring>

#include "fuzz/fuzz.h"
#include "io/weight_files.h"

namespace {

// A file with the tensors "<prefix>.0" and "<prefix>.1", one float each.
std::string shard(const std::string& prefix) {
  const std::string header = "{\"" + prefix +
                             R"(.0":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},")" + prefix +
                             R"(.1":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
  const std::uint64_t header_bytes = header.size();
  std::string out(sizeof header_bytes, '\0');
  std::memcpy(out.data(), &header_bytes, sizeof header_bytes);
  return out + header + std::string(8, '\x3c');
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  static const bool shards_written = [] {
    fuzz::write("a.safetensors", shard("a"));
    fuzz::write("b.safetensors", shard("b"));
    return true;
  }();
  if (!shards_written) return 0;
  fuzz::write("model.safetensors.index.json", fuzz::text_of(data, size));
  fuzz::refuse_or_accept([&] {
    const io::WeightFiles files(fuzz::folder().path());
    for (std::string_view name : files.names())
      if (files.tensor(name).bytes.empty() || !files.contains(name)) __builtin_trap();
  });
  return 0;
}
