// A directory that appears under its name complete or not at all: written under another name, then
// renamed.
#pragma once

#include <string>
#include <string_view>

namespace lamina::io {

//   DirectoryCommit step("run/checkpoints/step-100");
//   write_durably(step.path() + "/state.json", text);
//   step.commit();
class DirectoryCommit {
 public:
  enum class Above { all, one };  // directories above it that are created if missing

  // Creates "<final_path>.partial-<random>", and directories above it, and locks it (flock).
  // Removes partial directories of the same final path that no process has locked, which were left
  // by killed commands; each is logged.
  explicit DirectoryCommit(std::string final_path, Above above = Above::all);
  DirectoryCommit(const DirectoryCommit&) = delete;
  DirectoryCommit& operator=(const DirectoryCommit&) = delete;
  ~DirectoryCommit();  // without commit(): removes it

  // The directory to write to. Writers of its files must sync them (DurableFile does).
  const std::string& path() const { return partial_path_; }

  // Renames it to its final name, which must not exist (a DeviceError of class checkpoint). Leaves
  // nothing behind after an error.
  void commit();

 private:
  bool make_partial();

  std::string final_path_;
  std::string partial_path_;
  int lock_ = -1;  // the partial directory, open, and locked if the file system supports it
};

// Returns whether remove_leftovers() removes a directory of this name.
bool is_leftover(std::string_view name);

// Removes leftovers of interrupted commits in `directory`: partial directories, and directories
// whose removal had begun. REQUIRES: no other process writes there (io/directory_lock.h), because a
// leftover looks like work in progress on another host.
void remove_leftovers(const std::string& directory);

// Removes a committed directory. A crash never leaves half of it under its name.
void remove_directory(const std::string& path);

}  // namespace lamina::io
