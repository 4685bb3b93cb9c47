// Distinguishes errors of published files (exit 4) from errors of the settings that change their
// values (exit 2).
#pragma once

#include <filesystem>

#include "config/raw.h"
#include "core/error.h"

namespace lamina::config {

// Returns whether the model at this path is described by a config.json or a GGUF file. The path is
// "" for a model in a run file.
inline bool is_published(const std::filesystem::path& path) {
  return !path.empty() && path.extension() != ".toml";
}

// Returns the values of the published file alone.
inline Raw published_part(Raw raw) {
  std::erase_if(raw.entries, [](const RawEntry& entry) { return !is_json(entry.origin); });
  std::erase_if(raw.sections, [](const RawSection& section) { return !is_json(section.origin); });
  return raw;
}

// Calls `read`. If it throws a usage error, calls `read_published`, which reads the same model
// without the user's settings. If that throws the same error, the published file causes it: the
// error gets the code of model files.
template <class Read, class ReadPublished>
auto with_file_faults(const Read& read, const ReadPublished& read_published) {
  try {
    return read();
  } catch (const UserError& error) {
    if (error.code() != ExitCode::usage) throw;
    try {
      static_cast<void>(read_published());
    } catch (const UserError& again) {
      if (again.text().where == error.text().where && again.text().what == error.text().what)
        throw UserError(ExitCode::checkpoint, error.text());
    } catch (const std::exception&) {  // another fault
    }
    throw;
  }
}

}  // namespace lamina::config
