// A file that grows during a run by whole pieces: lines or records. Errors of the disk never end
// the run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lamina::train {

// [one thread]
class AppendedFile {
 public:
  // A new file, made with its folder when the first piece is written. Messages call the pieces
  // `pieces`, eg: "lines".
  AppendedFile(std::string path, std::string pieces)
      : path_(std::move(path)), pieces_(std::move(pieces)) {}
  // Takes over a file of lines that is open to append and has `num_bytes` bytes.
  AppendedFile(std::string path, int fd, std::uint64_t num_bytes)
      : path_(std::move(path)), pieces_("lines"), of_lines_(true), fd_(fd), num_bytes_(num_bytes) {}
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;
  ~AppendedFile();

  // Appends a piece. If the disk refuses it, logs a warning and keeps it in memory, up to a bound;
  // the next calls try again, in order.
  void write(std::string piece);

  // If the file was removed, makes it again for later pieces, after the piece `first` unless that
  // is empty. If another file has its name, eg because an editor saved it, later pieces are
  // appended to that, with a warning; lines begin after a line feed. If the disk refuses, the next
  // calls try again.
  void renew(std::string first = "");

  // Returns a function that makes the pieces written so far survive a power failure. [any thread]
  std::function<void()> sync_later() const;

  // Tries once more and logs a warning about pieces that could not be written.
  void finish();

 private:
  int open();  // returns 0, or errno
  // Opens the file that has the name now, or makes it; likewise. May add a piece to write first.
  int open_again();
  int cut();  // cuts the file after its whole pieces; likewise
  void write_waiting();

  std::string path_;
  std::string pieces_;
  bool of_lines_ = false;
  int fd_ = -1;
  std::uint64_t num_bytes_ = 0;  // of whole pieces
  bool torn_ = false;            // part of a piece may follow these
  bool failing_ = false;         // since a warning
  bool lost_ = false;            // was removed or replaced, and no file is open since
  std::string first_;            // of a file that is made again
  std::vector<std::string> waiting_;
  std::uint64_t num_dropped_ = 0;
};

}  // namespace lamina::train
