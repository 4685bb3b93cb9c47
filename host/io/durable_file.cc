#include "io/durable_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <new>
#include <utility>

#include "core/broken_pipe.h"
#include "core/error.h"
#include "core/open_file.h"
#include "core/system_error.h"
#include "io/destination.h"
#include "io/directories.h"
#include "io/file_lock.h"
#include "io/mapped_file.h"

namespace lamina::io {
namespace {

std::string to_hex(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string_view advice(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "free some space there, or write to another disk";
    case EMFILE:
      return kRaiseOpenFiles;
    case EFBIG:
      return "raise the limit on file size (ulimit -f)";
    case EACCES:
    case EPERM:
    case EROFS:
      return "check the permissions of the directory, or write elsewhere";
    case ENOENT:
    case ENOTDIR:
      return "check that the directory exists";
    default:
      return "check the disk and the file system";
  }
}

[[noreturn]] void fail_system(const std::string& path, std::string what, int error_number) {
  throw DeviceError(ExitCode::checkpoint,
                    {path,
                     fmt::format("{}: {}", what, system_error_text(error_number)),
                     {std::string(advice(error_number))}});
}

// True if a process is still writing the file. Links are never followed.
bool has_writer(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = try_lock(fd) == EWOULDBLOCK;
  ::close(fd);
  return locked;
}

[[noreturn]] void fail_in_use(const std::string& path) {
  throw DeviceError(ExitCode::checkpoint, {path,
                                           "is being written by another process",
                                           {"wait for its end, or write to another path"}});
}

}  // namespace

struct DurableFile::Hash {
  XXH3_state_t* state = XXH3_createState();
  Hash() {
    if (!state) throw std::bad_alloc();
    XXH3_128bits_reset(state);
  }
  ~Hash() { XXH3_freeState(state); }
};

DurableFile::DurableFile(std::string path, std::uint64_t expected_bytes, NamedBy named_by)
    : path_(std::move(path)), hash_(std::make_unique<Hash>()) {
  if (named_by == NamedBy::user) {
    const Destination destination = destination_of(path_);
    path_ = destination.path;
    if (destination.in_place) {
      fd_ = open_in_place(destination);
      is_standard_output_ = is_standard_output(destination);
      return;
    }
  }
  create_partial(expected_bytes, named_by);
}

void DurableFile::create_partial(std::uint64_t expected_bytes, NamedBy named_by) {
  struct statvfs disk {};
  // Some file systems without a disk, eg /proc, report 0 blocks.
  if (expected_bytes > 0 && ::statvfs(parent_directory(path_).c_str(), &disk) == 0 &&
      disk.f_blocks > 0) {
    const std::uint64_t room = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
    if (room < expected_bytes)
      throw DeviceError(
          ExitCode::checkpoint,
          {path_,
           fmt::format("needs {} bytes, but the disk has only {} free", expected_bytes, room),
           {std::string(advice(ENOSPC))}});
  }
  const std::string partial_path = path_ + ".partial";
  const auto create = [&] {
    fd_ = ::open(partial_path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  };
  create();
  // The existing file was left by another process, or is a link or a FIFO of any user with access
  // to the directory: replace it with a new file.
  if (fd_ < 0 && errno == EEXIST) {
    if (has_writer(partial_path)) fail_in_use(path_);
    if (::unlink(partial_path.c_str()) == 0) create();
    if (fd_ < 0 && errno == EEXIST) fail_in_use(path_);  // created by another process since then
  }
  if (fd_ < 0) fail("cannot be created", errno);
  struct stat status {};
  if (try_lock(fd_) == EWOULDBLOCK || ::fstat(fd_, &status) != 0) {
    ::close(std::exchange(fd_, -1));
    fail_in_use(path_);
  }
  partial_path_ = partial_path;
  inode_ = status.st_ino;
  if (named_by == NamedBy::user && ::stat(path_.c_str(), &status) == 0)
    ::fchmod(fd_, status.st_mode & 0777);
}

DurableFile::~DurableFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!partial_path_.empty()) ::unlink(partial_path_.c_str());
}

void DurableFile::fail(std::string_view doing, int error_number) const {
  fail_system(path_, std::string(doing), error_number);
}

void DurableFile::write(std::span<const std::byte> bytes) {
  LAMINA_ASSERT(fd_ >= 0);
  while (!bytes.empty()) {
    // Hashing each piece directly before it is written keeps it in the cache.
    const auto piece = bytes.first(std::min<std::size_t>(bytes.size(), std::size_t{1} << 20));
    XXH3_128bits_update(hash_->state, piece.data(), piece.size());
    for (std::size_t done = 0; done < piece.size();) {
      const ssize_t n = ::write(fd_, piece.data() + done, piece.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) {  // a full non-blocking pipe
        pollfd full{fd_, POLLOUT, 0};
        ::poll(&full, 1, -1);
        continue;
      }
      if (n < 0 && errno == EPIPE && is_standard_output_) throw BrokenPipe();
      if (n < 0) fail(fmt::format("cannot be written after {} bytes", num_bytes_), errno);
      done += static_cast<std::size_t>(n);
      num_bytes_ += static_cast<std::uint64_t>(n);
    }
    bytes = bytes.subspan(piece.size());
  }
}

void DurableFile::write_part(std::string name, std::span<const std::byte> bytes) {
  write_part(std::move(name), [&](const ByteSink& sink) { sink(bytes); });
}

void DurableFile::write_part(std::string name, const std::function<void(const ByteSink&)>& give) {
  const std::uint64_t first = num_bytes_;
  PartHash hash;
  give([&](std::span<const std::byte> bytes) {
    hash.update(bytes);
    write(bytes);
  });
  parts_.push_back({std::move(name), first, num_bytes_ - first, hash.hex()});
}

FileDigest DurableFile::commit() {
  LAMINA_ASSERT(fd_ >= 0);
  // Never retried: after a failed fsync the data may be lost although a second fsync succeeds.
  // Pipes and most devices cannot be synced (EINVAL).
  if (::fsync(fd_) != 0 && !(partial_path_.empty() && errno == EINVAL))
    fail("cannot be synced to disk", errno);
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) fail("cannot be closed", errno);
  if (!partial_path_.empty()) rename_partial();
  return {std::filesystem::path(path_).filename().string(), num_bytes_,
          to_hex(XXH3_128bits_digest(hash_->state)), std::move(parts_)};
}

void DurableFile::rename_partial() {
  struct stat status {};
  // Two processes that both found an old file may have replaced each other's.
  if (::lstat(partial_path_.c_str(), &status) != 0 || status.st_ino != inode_) {
    partial_path_.clear();
    fail_in_use(path_);
  }
  // As root, a rename would replace a device node for the whole machine.
  if (::lstat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode) &&
      !S_ISLNK(status.st_mode) && !S_ISDIR(status.st_mode))
    throw DeviceError(ExitCode::checkpoint,
                      {path_,
                       fmt::format("is {} and is not replaced", file_kind(status.st_mode)),
                       {"remove it, or write to another path"}});
  if (::rename(partial_path_.c_str(), path_.c_str()) != 0) fail("cannot be renamed", errno);
  partial_path_.clear();
  sync_directory(parent_directory(path_));
}

FileDigest write_durably(const std::string& path, std::string_view text, NamedBy named_by) {
  DurableFile file(path, text.size(), named_by);
  file.write(text);
  return file.commit();
}

FileDigest copy_durably(const std::string& from, const std::string& to) {
  const MappedFile source(from);
  DurableFile file(to, source.bytes().size());
  file.write(source.bytes());
  return file.commit();
}

void sync_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_system(path, "cannot be opened", errno);
  const int synced = ::fsync(fd);
  const int error_number = errno;
  ::close(fd);
  if (synced != 0) fail_system(path, "cannot be synced to disk", error_number);
}

void sync_directory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_system(path, "cannot be opened", errno);
  const int synced = ::fsync(fd);
  const int error_number = errno;
  ::close(fd);
  // Some network file systems cannot sync a directory and do not need it.
  if (synced != 0 && error_number != EINVAL) fail_system(path, "cannot be synced", error_number);
}

std::string xxh3_128_hex(std::span<const std::byte> bytes) {
  return to_hex(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string xxh3_64_hex(std::span<const std::byte> bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

struct PartHash::State {
  XXH3_state_t* state = XXH3_createState();
  State() {
    if (!state) throw std::bad_alloc();
    XXH3_64bits_reset(state);
  }
  ~State() { XXH3_freeState(state); }
};

PartHash::PartHash() : state_(std::make_unique<State>()) {}
PartHash::~PartHash() = default;

void PartHash::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_->state, bytes.data(), bytes.size());
}

std::string PartHash::hex() const {
  return fmt::format("{:016x}", XXH3_64bits_digest(state_->state));
}

}  // namespace lamina::io
