// A directory that appears complete under its name or not at all: written beside it, renamed.
#pragma once

#include <string>

namespace lamina::io {

//   DirectoryCommit step("run/checkpoints/step-100");
//   write_durably(step.path() + "/state.json", text);
//   step.commit();
class DirectoryCommit {
 public:
  // Makes "<final_path>.partial-<pid>-<n>", and the directories above it.
  explicit DirectoryCommit(std::string final_path);
  DirectoryCommit(const DirectoryCommit&) = delete;
  DirectoryCommit& operator=(const DirectoryCommit&) = delete;
  ~DirectoryCommit();  // without commit(): removes it

  // Where to write. Files in it must be synced by their writer (DurableFile does).
  const std::string& path() const { return partial_path_; }

  // Renames it to its final name, which must not exist (a DeviceError of class checkpoint).
  void commit();

 private:
  std::string final_path_;
  std::string partial_path_;
};

// Removes what interrupted commits left in `directory`: partial directories of processes that are
// gone, and directories whose removal was begun.
void remove_leftovers(const std::string& directory);

// Removes a committed directory so that a crash in the middle never leaves half of it under its
// name.
void remove_directory(const std::string& path);

}  // namespace lamina::io
