// manifest.json of a checkpoint with one file, data.bin. The input is the text before the checksum;
// the checksum is right, so that the reader is tested.
#include "fuzz/fuzz.h"
#include "io/durable_file.h"
#include "io/manifest.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  static const std::string data_file = fuzz::write("data.bin", "0123456789");
  std::string text(fuzz::text_of(data, size));
  text += "\"manifest_xxh3_128\": \"";
  text += io::xxh3_128_hex(std::as_bytes(std::span(text))) + "\"\n}\n";
  fuzz::write(io::kManifestName, text);
  fuzz::refuse_or_accept([&] {
    const io::FileManifest manifest = io::read_manifest(fuzz::folder().path());
    fuzz::refuse_or_accept([&] { static_cast<void>(manifest.info().at("step").as_int64()); });
    fuzz::refuse_or_accept([&] {
      io::first_difference(fuzz::folder().path(), manifest, io::ManifestCheck::checksums);
    });
  });
  return 0;
}
