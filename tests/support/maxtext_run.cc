#include "support/maxtext_run.h"

#include "support/maxtext_settings.h"

namespace lamina::testing {

config::RunConfig maxtext_run(JsonValue theirs) {
  const JsonValue nested = theirs.find("model"), model = nested ? nested : theirs;
  const bool whole = static_cast<bool>(model.find("vocab_size"));
  const JsonDocument block = JsonDocument::parse(R"({"decoder_block": "qwen3"})", "block");
  const JsonValue base = whole ? JsonValue{} : block.root();
  return config::parse_run(import_maxtext({base, nested, theirs}).toml, "imported");
}

}  // namespace lamina::testing
