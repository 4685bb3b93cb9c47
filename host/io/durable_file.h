// Files that exist under their final name complete or not at all, also after a crash or a power
// failure: written under another name, synced, renamed, and the directory synced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::io {

// The checksum of a part of a file, eg: one tensor. Identifies the damaged part in errors.
struct PartDigest {
  std::string name;
  std::uint64_t first_byte;
  std::uint64_t num_bytes;
  std::string xxh3_64;  // 16 hex digits, as `xxhsum -H3` prints
};

struct FileDigest {
  std::string name;  // relative to its directory
  std::uint64_t num_bytes;
  std::string xxh3_128;  // 32 hex digits, as `xxhsum -H2` prints
  std::vector<PartDigest> parts;
};

// Origin of a file name. For a file named by the user, links are followed, permissions are kept,
// and a file that is not regular is written in place: see io/destination.h.
enum class NamedBy { program, user };

// Receives bytes, one piece after the other.
using ByteSink = std::function<void(std::span<const std::byte>)>;

// Every system failure (disk full, no permission, ...) is a DeviceError of class checkpoint with
// the file's name; the final name then still has its previous contents. BrokenPipe if the user
// named standard output and its reader closed it.
//   DurableFile file("run/notes.txt");
//   file.write("hello\n");
//   file.commit();
class DurableFile {
 public:
  // Creates "<path>.partial", or opens a file that is written in place. With `expected_bytes` (0:
  // unknown), fails early if the disk has less space. UserError: see destination_of().
  explicit DurableFile(std::string path, std::uint64_t expected_bytes = 0,
                       NamedBy named_by = NamedBy::program);
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  ~DurableFile();  // without commit(): removes the partial file

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Writes `bytes` and records their checksum under `name`.
  void write_part(std::string name, std::span<const std::byte> bytes);
  // Writes a part in pieces, which `give` passes to the sink.
  void write_part(std::string name, const std::function<void(const ByteSink&)>& give);
  std::uint64_t num_bytes() const { return num_bytes_; }

  // Syncs, renames over `path`, syncs the directory. A previous file stays intact for processes
  // that have it open or mapped. Never replaces a device, a FIFO or a socket.
  FileDigest commit();

 private:
  struct Hash;
  void create_partial(std::uint64_t expected_bytes, NamedBy named_by);
  void rename_partial();
  [[noreturn]] void fail(std::string_view doing, int error_number) const;

  std::string path_;
  std::string partial_path_;  // empty when writing in place
  std::uint64_t inode_ = 0;   // of the partial file
  int fd_ = -1;
  bool is_standard_output_ = false;
  std::uint64_t num_bytes_ = 0;
  std::unique_ptr<Hash> hash_;
  std::vector<PartDigest> parts_;
};

// Writes and commits a small file.
FileDigest write_durably(const std::string& path, std::string_view text,
                         NamedBy named_by = NamedBy::program);

// Writes and commits a copy of the file `from`.
FileDigest copy_durably(const std::string& from, const std::string& to);

// Makes a file that was written otherwise survive a power failure.
void sync_file(const std::string& path);

// Makes renames and new names inside `path` survive a power failure.
void sync_directory(const std::string& path);

// Returns the checksum of `bytes`, in the form of FileDigest and PartDigest.
std::string xxh3_128_hex(std::span<const std::byte> bytes);
std::string xxh3_64_hex(std::span<const std::byte> bytes);

// Computes the checksum of a part from consecutive pieces.
class PartHash {
 public:
  PartHash();
  ~PartHash();
  PartHash(const PartHash&) = delete;
  PartHash& operator=(const PartHash&) = delete;

  void update(std::span<const std::byte> bytes);
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lamina::io
