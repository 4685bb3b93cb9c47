// A run file: TOML, then every key against its declaration.
#include "config/raw.h"
#include "config/run_config.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::refuse_or_accept(
      [&] { config::parse_toml(text, "x.toml", config::Origin::Kind::run_file); });
  fuzz::refuse_or_accept([&] { config::load_run(fuzz::write("x.toml", text)); });
  fuzz::refuse_or_accept([&] { config::parse_override(text); });
  return 0;
}
