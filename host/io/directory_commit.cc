#include "io/directory_commit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "io/directories.h"
#include "io/durable_file.h"

namespace lamina::io {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPartial = ".partial-";
constexpr std::string_view kDeleting = ".deleting";

// Hosts and containers share directories but neither process ids nor clocks.
std::string random_name() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

}  // namespace

DirectoryCommit::DirectoryCommit(std::string final_path) : final_path_(std::move(final_path)) {
  while (final_path_.size() > 1 && final_path_.ends_with('/')) final_path_.pop_back();
  std::error_code ec;
  fs::create_directories(parent_directory(final_path_), ec);
  if (ec) fail_at(parent_directory(final_path_), "cannot be created", ec.value());
  do {
    partial_path_ = fmt::format("{}{}{}", final_path_, kPartial, random_name());
    if (::mkdir(partial_path_.c_str(), 0777) == 0) return;
  } while (errno == EEXIST);
  fail_at(partial_path_, "cannot be created", errno);
}

DirectoryCommit::~DirectoryCommit() {
  std::error_code ec;
  if (!partial_path_.empty()) fs::remove_all(partial_path_, ec);
}

void DirectoryCommit::commit() {
  LAMINA_ASSERT(!partial_path_.empty());
  sync_directory(partial_path_);
  int renamed =
      ::renameat2(AT_FDCWD, partial_path_.c_str(), AT_FDCWD, final_path_.c_str(), RENAME_NOREPLACE);
  if (renamed != 0 && (errno == EINVAL || errno == ENOSYS)) {
    // This file system cannot refuse to replace; plain rename replaces an empty directory only.
    struct stat status {};
    if (::lstat(final_path_.c_str(), &status) == 0)
      fail_at(final_path_, "cannot be renamed", EEXIST);
    renamed = ::rename(partial_path_.c_str(), final_path_.c_str());
  }
  if (renamed != 0) fail_at(final_path_, "cannot be renamed to its final name", errno);
  const std::string partial_path = std::exchange(partial_path_, "");
  try {
    sync_directory(parent_directory(final_path_));
  } catch (const DeviceError&) {
    // What may be gone after a power failure does not keep the name from another attempt.
    if (::rename(final_path_.c_str(), partial_path.c_str()) == 0) partial_path_ = partial_path;
    throw;
  }
}

bool is_leftover(std::string_view name) {
  return name.find(kPartial) != name.npos || name.ends_with(kDeleting);
}

void remove_leftovers(const std::string& directory) {
  std::error_code ec;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ec)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;  // a leftover that cannot be removed harms nobody
    if (is_leftover(name)) fs::remove_all(entry.path(), ignored);
  }
}

void remove_directory(const std::string& path) {
  const std::string doomed = path + std::string(kDeleting);
  std::error_code ec;
  fs::remove_all(doomed, ec);
  if (::rename(path.c_str(), doomed.c_str()) != 0) fail_at(path, "cannot be removed", errno);
  fs::remove_all(doomed, ec);
  if (ec) fail_at(doomed, "cannot be removed", ec.value());
}

}  // namespace lamina::io
