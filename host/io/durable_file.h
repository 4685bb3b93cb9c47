// Files that are either complete under their final name or not there at all, also after a crash or
// a power failure: written beside, synced, renamed, the directory synced.
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

// The checksum of a part of a file, eg of one tensor: names the damage in a message.
struct PartDigest {
  std::string name;
  std::uint64_t first_byte;
  std::uint64_t num_bytes;
  std::string xxh3_64;  // 16 hex digits, as `xxhsum -H3` prints
};

struct FileDigest {
  std::string name;  // within its directory
  std::uint64_t num_bytes;
  std::string xxh3_128;  // 32 hex digits, as `xxhsum -H2` prints
  std::vector<PartDigest> parts;
};

// Who chose the name of a file. Of a file that the user named, links are followed, the permissions
// are kept, and what is not a regular file is written in place: see io/destination.h.
enum class NamedBy { program, user };

// Takes bytes, one piece after the other.
using ByteSink = std::function<void(std::span<const std::byte>)>;

// Every failure of the system (disk full, no permission, ...) is a DeviceError of class checkpoint
// that names the file; the final name then still holds what it held before.
//   DurableFile file("run/notes.txt");
//   file.write("hello\n");
//   file.commit();
class DurableFile {
 public:
  // Creates "<path>.partial", or opens what is written in place. `expected_bytes` fails early if
  // the disk has less room; 0 for unknown. UserError (exit 2) as destination_of().
  explicit DurableFile(std::string path, std::uint64_t expected_bytes = 0,
                       NamedBy named_by = NamedBy::program);
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  ~DurableFile();  // without commit(): removes the partial file

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Likewise, and remembers the checksum of these bytes under `name`.
  void write_part(std::string name, std::span<const std::byte> bytes);
  // The same of a part that `give` hands over in pieces.
  void write_part(std::string name, const std::function<void(const ByteSink&)>& give);
  std::uint64_t num_bytes() const { return num_bytes_; }

  // Syncs, renames over `path`, syncs the directory. The file that was there before stays intact
  // for those who have it open or mapped. Never replaces a device, a FIFO or a socket.
  FileDigest commit();

 private:
  struct Hash;
  void create_partial(std::uint64_t expected_bytes, NamedBy named_by);
  void rename_partial();
  [[noreturn]] void fail(std::string_view doing, int error_number) const;

  std::string path_;
  std::string partial_path_;  // empty for what is written in place
  int fd_ = -1;
  std::uint64_t num_bytes_ = 0;
  std::unique_ptr<Hash> hash_;
  std::vector<PartDigest> parts_;
};

// write + commit of a small file.
FileDigest write_durably(const std::string& path, std::string_view text,
                         NamedBy named_by = NamedBy::program);

// Makes the bytes of a file that something else has written survive a power failure.
void sync_file(const std::string& path);

// Makes renames and new names inside `path` survive a power failure.
void sync_directory(const std::string& path);

// The checksums of `bytes`, in the form of FileDigest and PartDigest.
std::string xxh3_128_hex(std::span<const std::byte> bytes);
std::string xxh3_64_hex(std::span<const std::byte> bytes);

// The checksum of a part, from one piece after the other.
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
