#include "data/find_files.h"

#include <dirent.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/open_file.h"
#include "core/printable.h"
#include "core/system_error.h"

namespace lamina::data {
namespace {

[[noreturn]] void fail(const std::string& where, std::string what, std::string what_to_do) {
  throw UserError(ExitCode::data, {where, std::move(what), {std::move(what_to_do)}});
}

[[noreturn]] void fail_without_files(const std::string& pattern, std::string what,
                                     std::string what_to_do) {
  throw NoFiles(pattern, {pattern, std::move(what), {std::move(what_to_do)}});
}

std::string relative_to_here() {
  return "it is relative to the current directory, " + std::filesystem::current_path().string();
}

// Returns the status of `path`, or nothing if it does not exist. A dangling link is an error.
std::optional<struct stat> look_at(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return status;
  const int error = errno;
  if (error != ENOENT && error != ENOTDIR)
    fail(path, fmt::format("cannot be read: {}", system_error_text(error)),
         "check the permissions of the path and of the folders above it");
  if (::lstat(path.c_str(), &status) == 0)
    fail(path, "is a dangling link", "remove it, or restore its target");
  return std::nullopt;
}

std::string joined(const std::string& directory, const std::string& name) {
  return directory.empty() || directory.ends_with('/') ? directory + name : directory + '/' + name;
}

// Returns the names in a directory ("" is the current one) except "." and "..", sorted.
std::vector<std::string> names_in(const std::string& directory) {
  const auto check = [&](bool ok) {
    const int error = errno;
    if (!ok)
      fail(directory, fmt::format("cannot be listed: {}", system_error_text(error)),
           error == EMFILE ? kRaiseOpenFiles : "check the permissions of the folder");
  };
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(
      ::opendir(directory.empty() ? "." : directory.c_str()), &::closedir);
  check(stream != nullptr);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;  // to distinguish the end from an error
    const dirent* entry = ::readdir(stream.get());
    check(entry || errno == 0);
    if (!entry) break;
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Collects files from several paths.
class Walk {
 public:
  // Adds a file, or all files of a directory.
  void add(const std::string& path, const struct stat& status) {
    if (S_ISREG(status.st_mode)) return files_.push_back(path);
    if (!S_ISDIR(status.st_mode))
      fail(path, fmt::format("is {}; expected text files", file_kind(status.st_mode)),
           "give files and folders; files in a folder whose names begin with a dot are skipped");
    std::vector<std::string> waiting;
    if (is_new(status)) waiting.push_back(path);
    while (!waiting.empty()) {
      const std::string directory = std::move(waiting.back());
      waiting.pop_back();
      for (const std::string& name : names_in(directory)) {
        if (name.starts_with('.')) continue;
        const std::string inside = joined(directory, name);
        const auto found = look_at(inside);
        if (!found)
          fail(inside, "was removed while its folder was being read",
               "run again when the files no "
               "longer change");
        if (!S_ISDIR(found->st_mode))
          add(inside, *found);
        else if (is_new(*found))
          waiting.push_back(inside);
      }
    }
  }

  std::vector<std::string> files() && {
    std::sort(files_.begin(), files_.end());
    return std::move(files_);
  }

 private:
  bool is_new(const struct stat& status) {
    return directories_.emplace(status.st_dev, status.st_ino).second;
  }

  std::vector<std::string> files_;
  std::set<std::pair<dev_t, ino_t>> directories_;
};

// Returns the matching paths, found folder by folder. glob() of the C library silently skips
// folders that it cannot read.
std::vector<std::string> matches_of(const std::string& pattern) {
  std::vector<std::string> found{pattern.starts_with('/') ? "/" : ""};
  for (std::size_t at = 0; at < pattern.size();) {
    const std::size_t end = std::min(pattern.find('/', at), pattern.size());
    const std::string part = pattern.substr(at, end - at);
    const bool last = end + 1 >= pattern.size();
    at = end + 1;
    if (part.empty()) continue;
    const bool many = part.find_first_of("*?[\\") != part.npos;
    std::vector<std::string> longer;
    const auto add = [&](const std::string& path) {
      const auto status = look_at(path);
      if (status && (S_ISDIR(status->st_mode) || (last && !pattern.ends_with('/'))))
        longer.push_back(path);
    };
    for (const std::string& directory : found) {
      if (!many) {
        add(joined(directory, part));
        continue;
      }
      for (const std::string& name : names_in(directory))
        if (::fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0) add(joined(directory, name));
    }
    found = std::move(longer);
  }
  return found;
}

}  // namespace

std::vector<std::string> find_files(const std::string& pattern) {
  if (pattern.empty() || pattern.find('\0') != pattern.npos)
    fail(pattern.empty() ? "''" : printable(pattern),
         "is not a path; expected a file, a folder or a glob",
         "check data.train and data.validation");
  if (pattern == "-")
    fail(pattern, "stdin cannot be read here, because data are read more than once",
         "write them to a file first; a file of that name is ./-");
  Walk walk;
  std::string_view empty = "is a directory without files";
  if (const auto status = look_at(pattern)) {
    walk.add(pattern, *status);
  } else if (pattern.find_first_of("*?[") != pattern.npos) {
    const std::vector<std::string> matches = matches_of(pattern);
    if (matches.empty())
      fail_without_files(pattern, "matches no file", "check the pattern; " + relative_to_here());
    for (const std::string& path : matches)
      if (const auto found = look_at(path)) walk.add(path, *found);
    empty = "matches only directories without files";
  } else {
    fail_without_files(pattern, "no such file or directory",
                       "check the path; " + relative_to_here());
  }
  std::vector<std::string> files = std::move(walk).files();
  if (files.empty())
    fail_without_files(pattern, fmt::format("{}; expected text files", empty), "check the path");
  return files;
}

std::string find_json_file(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns)
    for (const std::string& file : find_files(pattern)) {
      std::string_view name = file;
      for (const std::string_view packed : {".gz", ".zst"})
        if (name.ends_with(packed)) name.remove_suffix(packed.size());
      if (name.ends_with(".json") || name.ends_with(".jsonl")) return file;
    }
  return "";
}

}  // namespace lamina::data
