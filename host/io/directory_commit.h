// A directory that appears complete under its name or not at all: written beside it, renamed.
#pragma once

#include <string>
#include <string_view>

namespace lamina::io {

//   DirectoryCommit step("run/checkpoints/step-100");
//   write_durably(step.path() + "/state.json", text);
//   step.commit();
class DirectoryCommit {
 public:
  // Makes "<final_path>.partial-<random>", and the directories above it. Locks it (flock), and
  // removes the partial directories of the same final path that no process has locked, which
  // commands that were killed left; each is named in the log.
  explicit DirectoryCommit(std::string final_path);
  DirectoryCommit(const DirectoryCommit&) = delete;
  DirectoryCommit& operator=(const DirectoryCommit&) = delete;
  ~DirectoryCommit();  // without commit(): removes it

  // Where to write. Files in it must be synced by their writer (DurableFile does).
  const std::string& path() const { return partial_path_; }

  // Renames it to its final name, which must not exist (a DeviceError of class checkpoint). After
  // an error nothing of it is left there.
  void commit();

 private:
  bool make_partial();

  std::string final_path_;
  std::string partial_path_;
  int lock_ = -1;  // the partial directory, open and locked where the file system has locks
};

// True for the name of a directory that remove_leftovers() removes.
bool is_leftover(std::string_view name);

// Removes what interrupted commits left in `directory`: partial directories, and directories whose
// removal was begun. REQUIRES: nobody else writes there (io/directory_lock.h), as nothing tells a
// leftover from work that is under way on another host.
void remove_leftovers(const std::string& directory);

// Removes a committed directory so that a crash in the middle never leaves half of it under its
// name.
void remove_directory(const std::string& path);

}  // namespace lamina::io
