#include "train/metrics/appended_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/system_error.h"
#include "core/write_all.h"
#include "io/directories.h"

namespace lamina::train {
namespace {

constexpr std::size_t kMaxWaiting = 100'000;  // pieces, about 30 MB

}  // namespace

AppendedFile::~AppendedFile() {
  if (fd_ >= 0) ::close(fd_);
}

int AppendedFile::open() {
  const std::string folder = io::parent_directory(path_);
  // One level: a run directory that was moved is not made again.
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) return errno;
  if (lost_) return open_again();
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  return fd_ < 0 ? errno : 0;
}

int AppendedFile::open_again() {
  struct stat named {};
  if (::lstat(path_.c_str(), &named) == 0 && !S_ISREG(named.st_mode)) return EEXIST;
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0) return errno;
  const off_t num_bytes = ::lseek(fd_, 0, SEEK_END);
  char last = '\n';
  if (num_bytes < 0 || (num_bytes > 0 && ::pread(fd_, &last, 1, num_bytes - 1) != 1)) {
    ::close(std::exchange(fd_, -1));
    return EIO;
  }
  num_bytes_ = static_cast<std::uint64_t>(num_bytes);
  lost_ = false;
  if (num_bytes == 0 && !first_.empty()) waiting_.insert(waiting_.begin(), std::move(first_));
  if (of_lines_ && last != '\n') waiting_.insert(waiting_.begin(), "\n");
  return 0;
}

int AppendedFile::cut() {
  return ::ftruncate(fd_, static_cast<off_t>(num_bytes_)) == 0 ? 0 : errno;
}

void AppendedFile::write(std::string piece) {
  if (waiting_.size() < kMaxWaiting)
    waiting_.push_back(std::move(piece));
  else
    ++num_dropped_;
  write_waiting();
}

void AppendedFile::write_waiting() {
  if (waiting_.empty()) return;
  int error = fd_ < 0 ? open() : torn_ ? cut() : 0;
  std::size_t done = 0;
  for (; done < waiting_.size() && error == 0; ++done) {
    error = write_all(fd_, waiting_[done]);
    if (error != 0) break;
    num_bytes_ += waiting_[done].size();
  }
  torn_ = error != 0 && fd_ >= 0 && cut() != 0;
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(done));
  if (error != 0) {
    if (!failing_)
      log::warning(
          "{} cannot be written, training continues: {}; its {} are kept in memory and tried "
          "again after every step\n  free space on that disk or repair it before the run ends",
          path_, system_error_text(error), pieces_);
    failing_ = true;
    return;
  }
  if (failing_) log::info("{} can be written again; {} {} were late", path_, done, pieces_);
  if (num_dropped_ > 0)
    log::warning("{} lacks {} {}, which were too many to keep in memory; plots will have a gap",
                 path_, num_dropped_, pieces_);
  failing_ = false;
  num_dropped_ = 0;
}

void AppendedFile::renew(std::string first) {
  if (fd_ >= 0) {
    struct stat open_file {
    }, named{};
    if (::fstat(fd_, &open_file) != 0) return;
    const bool has_name = ::lstat(path_.c_str(), &named) == 0;
    if (has_name ? open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino
                 : open_file.st_nlink > 0)
      return;
    ::close(std::exchange(fd_, -1));
    torn_ = false;
    lost_ = true;
    if (has_name && S_ISREG(named.st_mode))
      log::warning("{} was replaced by another file, to which later {} are appended", path_,
                   pieces_);
  }
  if (!lost_) return;
  first_ = std::move(first);
  if (open() == 0) write_waiting();  // else write_waiting() tries again
}

std::function<void()> AppendedFile::sync_later() const {
  if (fd_ < 0) return [] {};
  // Its own descriptor: this file may be closed by then.
  const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  const auto sync = [path = path_, pieces = pieces_](int fd) {
    if (::fsync(fd) != 0)
      log::warning("{} cannot be synced: {}; check the disk, a power cut may cost its last {}",
                   path, system_error_text(errno), pieces);
  };
  if (copy < 0) {  // too many open files
    sync(fd_);
    return [] {};
  }
  const std::shared_ptr<const int> fd(new int(copy), [](const int* open) {
    ::close(*open);
    delete open;
  });
  return [fd, sync] { sync(*fd); };
}

void AppendedFile::finish() {
  write_waiting();
  if (!waiting_.empty())
    log::warning("{} lacks its last {} {}, which could not be written; repair the disk", path_,
                 waiting_.size() + num_dropped_, pieces_);
}

}  // namespace lamina::train
