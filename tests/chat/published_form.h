// Published chat templates of the goldens.
#pragma once

#include <filesystem>
#include <string>

#include "chat/form.h"
#include "core/json_writer.h"
#include "support/goldens.h"
#include "support/temp_dir.h"

namespace lamina::testing {

inline std::string json_of(const JsonValue& value) {
  JsonWriter json;
  json.value(value);
  return json.text();
}

// The published template with its publisher's special tokens.
inline chat::Form published_form(std::string_view name) {
  const std::filesystem::path templates = golden_dir() / "chat" / "templates";
  const JsonDocument origins = JsonDocument::read(templates / "ORIGINS.json");
  TempDir folder;
  for (const JsonValue origin : origins.root().at("templates").elements())
    if (origin.at("name").as_string() == name)
      folder.write("tokenizer_config.json", json_of(origin));
  return chat::Form::load(folder.path(), (templates / (std::string(name) + ".jinja")).string());
}

}  // namespace lamina::testing
