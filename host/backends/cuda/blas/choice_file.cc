#include "backends/cuda/blas/choice_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "core/fnv1a.h"
#include "core/log.h"
#include "core/system_error.h"

namespace lamina::cuda::blas {
namespace {

namespace fs = std::filesystem;

// The choice depends on these too: change it with the preferences in product.cc.
constexpr std::string_view kFormat = "lamina cublaslt choices 2";
// A usual file has a hundred problems of each of a hundred models, and is smaller.
constexpr std::size_t kMostBytes = std::size_t{8} << 20;

struct Record {
  ProblemKey problem;
  AlgorithmChoice choice;
  std::uint64_t checksum;  // FNV-1a of the bytes before it
};
static_assert(std::is_trivially_copyable_v<Record>);
static_assert(sizeof(ProblemKey) == 7 * 8 + 4 * 4 && sizeof(AlgorithmChoice) == 9 * 8);

std::string bytes_of(const ProblemKey& problem, const AlgorithmChoice& choice) {
  Record record;
  std::memset(&record, 0, sizeof record);
  record.problem = problem;
  record.choice = choice;
  std::string out(reinterpret_cast<const char*>(&record), sizeof record);
  record.checksum = fnv1a(std::string_view(out).substr(0, offsetof(Record, checksum)));
  std::memcpy(out.data() + offsetof(Record, checksum), &record.checksum, sizeof record.checksum);
  return out;
}

// A file that is locked for this process. Others hold the lock for one read or write, unless they
// are stopped; work never waits for them longer than kLongestWait.
class LockedFile {
 public:
  LockedFile(const std::string& path, int flags)
      : file_(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0644)) {
    if (file_ < 0)
      error_ = system_error_text(errno);
    else if (!lock())
      shut();
  }
  ~LockedFile() {
    // A child process may have the file, too, and would keep the lock.
    if (file_ >= 0) flock(file_, LOCK_UN);
    shut();
  }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  explicit operator bool() const { return file_ >= 0; }
  // Says why the file is not locked.
  const std::string& error() const { return error_; }
  // Returns the contents, at most kMostBytes.
  std::string read() const {
    std::string out(std::min(size(), kMostBytes), '\0');
    const ssize_t count = pread(file_, out.data(), out.size(), 0);
    out.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return out;
  }
  // Returns 0, or the errno of the failure.
  int write(std::string_view bytes, std::size_t at) const {
    while (!bytes.empty()) {
      const ssize_t count = pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return count < 0 ? errno : ENOSPC;
      bytes.remove_prefix(static_cast<std::size_t>(count));
      at += static_cast<std::size_t>(count);
    }
    return 0;
  }
  std::size_t size() const {
    const off_t end = lseek(file_, 0, SEEK_END);
    return end > 0 ? static_cast<std::size_t>(end) : 0;
  }
  // Likewise.
  int cut(std::size_t size) const {
    return ftruncate(file_, static_cast<off_t>(size)) == 0 ? 0 : errno;
  }

 private:
  bool lock() {
    constexpr std::chrono::milliseconds kLongestWait{1000}, kPause{10};
    const auto end = std::chrono::steady_clock::now() + kLongestWait;
    while (flock(file_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        error_ = system_error_text(errno);
        return false;
      }
      if (std::chrono::steady_clock::now() > end) {
        error_ = "another process has locked it";
        return false;
      }
      std::this_thread::sleep_for(kPause);
    }
    return true;
  }
  void shut() {
    if (file_ >= 0) close(file_);
    file_ = -1;
  }
  int file_;
  std::string error_;
};

// Adds the records of a file to `choices`. Returns false if one is damaged.
bool read_records(std::string_view contents, std::string_view head,
                  std::map<ProblemKey, AlgorithmChoice>& choices) {
  if (!contents.starts_with(head)) return false;
  contents.remove_prefix(head.size());
  while (contents.size() >= sizeof(Record)) {
    Record record;
    std::memcpy(&record, contents.data(), sizeof record);
    if (record.checksum != fnv1a(contents.substr(0, offsetof(Record, checksum)))) return false;
    choices.insert_or_assign(record.problem, record.choice);
    contents.remove_prefix(sizeof(Record));
  }
  return contents.empty();
}

}  // namespace

std::string ChoiceOrigin::text() const {
  return fmt::format("{}; driver {}; cublaslt {}", card, driver, library);
}

std::string ChoiceOrigin::file_name() const {
  std::string name = fmt::format("cublaslt-{}-{}-{}", card, driver, library);
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-'; }, '_');
  return name;
}

ChoiceFile::ChoiceFile(const std::string& folder, const ChoiceOrigin& origin)
    : folder_(folder),
      path_((fs::path(folder) / origin.file_name()).string()),
      head_(fmt::format("{}\n{}\n", kFormat, origin.text())) {
  read();
}

void ChoiceFile::read() {
  std::error_code error;
  if (!fs::exists(path_, error)) return;
  const LockedFile file(path_, O_RDWR);
  if (!file) return give_up(file.error());
  if (read_records(file.read(), head_, choices_)) return;
  log::warning("{} is damaged; {} of its choices are used, the others are made again", path_,
               choices_.size());
  std::string contents = head_;
  for (const auto& [problem, choice] : choices_) contents += bytes_of(problem, choice);
  int failure = file.cut(0);
  if (failure == 0) failure = file.write(contents, 0);
  if (failure != 0) give_up(system_error_text(failure));
}

void ChoiceFile::add(const ProblemKey& problem, const AlgorithmChoice& choice) {
  choices_.insert_or_assign(problem, choice);
  if (!usable_) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  const LockedFile file(path_, O_RDWR | O_CREAT);
  if (!file) return give_up(file.error());
  std::size_t size = file.size();
  if (size < head_.size()) size = 0;
  // A process was killed while it wrote: its half of a record is overwritten.
  if (size > 0) size -= (size - head_.size()) % sizeof(Record);
  if (size + sizeof(Record) > kMostBytes) return;
  const std::string record = bytes_of(problem, choice);
  if (const int failure = file.write(size == 0 ? head_ + record : record, size)) {
    file.cut(size);  // no half of a record
    give_up(system_error_text(failure));
  }
}

void ChoiceFile::give_up(const std::string& why) {
  usable_ = false;
  log::warning("choices of cuBLASLt are not kept in {}: {}", path_, why);
}

std::string cache_folder() {
  if (getauxval(AT_SECURE) != 0) return {};
  const auto variable = [](const char* name) {
    const char* const text = std::getenv(name);
    return fs::path(text ? text : "");
  };
  if (const fs::path cache = variable("XDG_CACHE_HOME"); cache.is_absolute())
    return (cache / "lamina").string();
  if (const fs::path home = variable("HOME"); home.is_absolute())
    return (home / ".cache/lamina").string();
  return {};
}

}  // namespace lamina::cuda::blas
