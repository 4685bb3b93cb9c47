// Files of runs, checkpoints and models, which commands that write a named file must not touch.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lamina::train {

inline constexpr std::string_view kModelDirectory = "a model directory";

struct FileOwner {
  std::string directory;
  std::string_view kind;  // "a run directory"
  // True in checkpoints and in the folders of a run that hold them: a new file there would be taken
  // for one of theirs. False directly in a run or model directory: new files do no harm there.
  bool is_closed = false;
};

// "would be inside a run directory, 'runs/a', which only its training writes to"
std::string inside_in_words(const FileOwner& owner);

// Returns the owner of `path`, which need not exist; nothing for a file of the user.
std::optional<FileOwner> file_owner(const std::string& path);

}  // namespace lamina::train
