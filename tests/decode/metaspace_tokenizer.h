// A tokenizer whose words carry the space in front of them, which the first word of a text drops.
#pragma once

#include <memory>

#include "support/temp_dir.h"
#include "text/tokenizer.h"

namespace lamina::decode {

// Ids 0 to 4: " So", " in", " the", " world", "s".
inline std::unique_ptr<text::Tokenizer> metaspace_tokenizer() {
  lamina::testing::TempDir folder;
  folder.write(
      "tokenizer.json",
      R"({"version":"1.0","added_tokens":[],"normalizer":null,"post_processor":null,)"
      R"("pre_tokenizer":{"type":"Metaspace","replacement":"\u2581","prepend_scheme":"always"},)"
      R"("decoder":{"type":"Metaspace","replacement":"\u2581","prepend_scheme":"always"},)"
      R"("model":{"type":"BPE","vocab":{"\u2581So":0,"\u2581in":1,"\u2581the":2,"\u2581world":3,"s":4},)"
      R"("merges":[]}})");
  return text::load_tokenizer(folder.path());
}

}  // namespace lamina::decode
